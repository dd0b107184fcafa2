package figures

import (
	"strings"
	"testing"
)

// TestControlCharactersDoNotReachAnyFormat: a name may hold escape sequences, which a terminal would obey and XML forbids.
func TestControlCharactersDoNotReachAnyFormat(t *testing.T) {
	const name = "a\x1b[31mred\x07\r\u009b"
	g := Grid{Title: name, Columns: []Column{{Title: name, Align: "left", Head: true}}, Sections: []Section{{Rows: []GridRow{{Cells: Plain(name)}}}}, Data: []string{name}}
	for format, text := range map[string]string{"text": g.Text(), "md": g.Markdown(), "html": g.HTML(), "latex": g.LaTeX(), "csv": csvText([][]string{{name}})} {
		if strings.ContainsAny(text, "\x1b\x07\r\u009b") || !strings.Contains(text, "red") {
			t.Errorf("%s: %q", format, text)
		}
	}
}
