// Package page makes self-contained HTML pages, which ask nothing of the network and print well.
//
// In go the text of a template, its data and figures. Out comes one file with the style of all pages. A new page is a template beside the code that fills it;
// a rule that more than one page needs goes into style.css.
package page
