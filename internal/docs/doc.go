// Package docs reads the project's pages, so that tests can hold them to the code: their code blocks, inline code, links and headings.
package docs
