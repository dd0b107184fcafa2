// Package pages reads the project's pages, so that tests can hold them to the code: their code blocks, inline code, links and headings.
package pages

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Page is a page of Markdown.
type Page struct {
	Path     string   // Relative to the repository's root, with slashes.
	Lines    []string // All of it.
	Blocks   [][]string
	Inline   []string // `Code` within a line, without its backticks.
	Links    []string // Targets of links and pictures.
	Headings []string // As fragments of links name them, "add-a-loss".
}

// Read reads the pages for users and contributors. Root is the repository's.
func Read(root string) ([]Page, error) {
	var pages []Page
	for _, pattern := range []string{"*.md", "docs/*.md", "notebooks/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return nil, err
			}
			pages = append(pages, parse(filepath.ToSlash(name), string(text)))
		}
	}
	return pages, nil
}

var (
	inlineCode = regexp.MustCompile("`([^`]+)`")
	link       = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	notInSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func parse(path, text string) Page {
	p := Page{Path: path, Lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
	var prose []string // Code within a line may begin on one line and end on the next.
	inBlock := false
	for _, line := range p.Lines {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			if inBlock = !inBlock; inBlock {
				p.Blocks = append(p.Blocks, nil)
			}
		case inBlock:
			last := &p.Blocks[len(p.Blocks)-1]
			*last = append(*last, line)
		default:
			if strings.HasPrefix(line, "#") {
				title := strings.TrimSpace(strings.TrimLeft(line, "#"))
				p.Headings = append(p.Headings, strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(title), ""), " ", "-"))
			}
			prose = append(prose, trimmed)
		}
	}
	joined := strings.Join(prose, "\n")
	for _, match := range inlineCode.FindAllStringSubmatch(joined, -1) {
		p.Inline = append(p.Inline, strings.ReplaceAll(match[1], "\n", " "))
	}
	for _, match := range link.FindAllStringSubmatch(inlineCode.ReplaceAllString(joined, ""), -1) {
		p.Links = append(p.Links, match[1])
	}
	return p
}

// Commands lists the command lines of a page's code blocks and inline code that begin with a word, without their comments.
func (p Page) Commands(word string) (commands []string) {
	var candidates []string
	for _, block := range p.Blocks {
		candidates = append(candidates, block...)
	}
	for _, line := range append(candidates, p.Inline...) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " # ")
		if line == word || strings.HasPrefix(line, word+" ") {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	return commands
}
