package report

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/semcon/semcon/internal/atomicfile"
)

// Browsers are the programs that [Print] looks for, in this order.
var Browsers = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge", "brave-browser"}

// Browser returns the path of the browser that prints, or an error that names those it looked for.
func Browser() (string, error) {
	for _, name := range Browsers {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("a PDF needs a browser that prints, and none is installed: looked for %s; open the HTML page in yours and print it", strings.Join(Browsers, ", "))
}

// Print prints an HTML page, which write writes, to a PDF file by a browser, without a window.
func Print(ctx context.Context, browser, file string, write func(page string) error) (err error) {
	work, err := os.MkdirTemp("", "semcon-report")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	page, printed := filepath.Join(work, "report.html"), filepath.Join(work, "page.pdf")
	if err := write(page); err != nil {
		return err
	}
	args := []string{"--headless", "--disable-gpu", "--no-first-run", "--user-data-dir=" + filepath.Join(work, "profile"), "--no-pdf-header-footer", "--print-to-pdf=" + printed}
	if os.Getuid() == 0 { // Chromium refuses its sandbox to root.
		args = append(args, "--no-sandbox")
	}
	said, err := exec.CommandContext(ctx, browser, append(args, "file://"+filepath.ToSlash(page))...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s cannot print %s: %w", browser, page, err)
	}
	content, err := os.ReadFile(printed)
	if err != nil {
		return fmt.Errorf("%s has printed nothing of %s: %s", browser, page, firstLine(string(said)))
	}
	return atomicfile.WriteBytes(file, content)
}
