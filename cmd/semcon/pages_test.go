package main

import (
	"cmp"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
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

// readPages reads the pages for users and contributors. Root is the repository's.
func readPages(root string) ([]Page, error) {
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
			pages = append(pages, parsePage(filepath.ToSlash(name), string(text)))
		}
	}
	return pages, nil
}

var (
	inlineCode = regexp.MustCompile("`([^`]+)`")
	link       = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	notInSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func parsePage(path, text string) Page {
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

// repository is its root.
const repository = "../.."

// function is the beginning of a test.
var function = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Example)\w*)\(`)

func pagesByPath(t *testing.T) map[string]Page {
	t.Helper()
	all, err := readPages(repository)
	if err != nil {
		t.Fatal(err)
	}
	byPath := map[string]Page{}
	for _, p := range all {
		byPath[p.Path] = p
	}
	for _, want := range []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/README.md", "notebooks/README.md"} {
		if _, ok := byPath[want]; !ok {
			t.Errorf("%s is not there", want)
		}
	}
	return byPath
}

// TestDocsWalkAddsFewLines holds what CONTRIBUTING.md says of its evaluation: at most 120 lines outside tests.
func TestDocsWalkAddsFewLines(t *testing.T) {
	lines := 0
	for _, file := range []string{"evaluation/nearestcentroid.go", "experiments/centroid/study.go"} {
		content, err := os.ReadFile(filepath.Join(repository, "sccore", file))
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(content), "\n")
	}
	if lines > 120 {
		t.Errorf("the walk's evaluation has %d lines, at most 120 are few", lines)
	}
}

// TestDocsFilesAreShort holds what CONTRIBUTING.md says of files, and that sccore is the method alone.
func TestDocsFilesAreShort(t *testing.T) {
	method := 0
	err := filepath.WalkDir(repository, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return cmp.Or(err, fs.SkipDir)
		}
		if filepath.Ext(file) != ".go" {
			return nil
		}
		content, err := os.ReadFile(file)
		if lines := strings.Count(string(content), "\n"); lines > 400 {
			t.Errorf("%s has %d lines, at most 400 are a page of one concept", file, lines)
		}
		if filepath.Dir(file) == filepath.Join(repository, "sccore") && !strings.HasSuffix(file, "_test.go") {
			method++
		}
		return err
	})
	if err != nil || method > 10 {
		t.Errorf("%d source files in sccore, want at most 10; %v", method, err)
	}
}

func TestDocsReadmeIsAPage(t *testing.T) {
	if n := len(pagesByPath(t)["README.md"].Lines); n > 110 {
		t.Errorf("README.md has %d lines, at most 110 are a page", n)
	}
}

func TestDocsLinksLeadSomewhere(t *testing.T) {
	all := pagesByPath(t)
	for _, p := range all {
		for _, link := range p.Links {
			target, err := url.Parse(link)
			if err != nil {
				t.Errorf("%s: %v", p.Path, err)
				continue
			}
			if target.Scheme != "" {
				continue
			}
			file := p.Path
			if target.Path != "" {
				file = path.Join(path.Dir(p.Path), target.Path)
			}
			if _, err := os.Stat(filepath.Join(repository, file)); err != nil {
				t.Errorf("%s links to %s: %v", p.Path, link, err)
			}
			if target.Fragment != "" && !slices.Contains(all[file].Headings, target.Fragment) {
				t.Errorf("%s links to %s: %s has no such heading", p.Path, link, file)
			}
		}
	}
}

// TestDocsNameFilesThatExist: inline code that reads as a path of the repository.
func TestDocsNameFilesThatExist(t *testing.T) {
	isPath := regexp.MustCompile(`^[a-z.][\w.*-]*(/[\w.*-]+)+$`)
	for _, p := range pagesByPath(t) {
		for _, code := range p.Inline {
			top, _, _ := strings.Cut(code, "/")
			if !isPath.MatchString(code) || top == "out" || top == ".semcon" {
				continue
			}
			if _, err := os.Stat(filepath.Join(repository, top)); err != nil {
				continue // A path of something else, such as data.
			}
			if found, err := filepath.Glob(filepath.Join(repository, code)); err != nil || len(found) == 0 {
				t.Errorf("%s names `%s`, which is not there", p.Path, code)
			}
		}
	}
}

// TestDocsExcerptsAreOfTheirFiles: a block of Go that begins with "// FILE" is lines of the file, in order; "..." stands for what is left out.
func TestDocsExcerptsAreOfTheirFiles(t *testing.T) {
	excerpts := 0
	for _, p := range pagesByPath(t) {
		for _, block := range p.Blocks {
			name := strings.TrimLeft(strings.TrimSpace(block[0]), "/# ")
			if ending := filepath.Ext(name); ending != ".go" && ending != ".yaml" || strings.Contains(name, " ") {
				continue
			}
			excerpts++
			text, err := os.ReadFile(filepath.Join(repository, name))
			if err != nil {
				t.Errorf("%s: %v", p.Path, err)
				continue
			}
			lines := strings.Split(string(text), "\n")
			for _, want := range block[1:] {
				want = squeezed(want)
				if want == "" || want == "..." {
					continue
				}
				at := slices.IndexFunc(lines, func(line string) bool { return squeezed(line) == want })
				if at < 0 {
					t.Errorf("%s: %s has no line %q behind those before it", p.Path, name, want)
					break
				}
				lines = lines[at+1:]
			}
		}
	}
	if excerpts == 0 {
		t.Error("no excerpts")
	}
}

// squeezed is a line however it is aligned.
func squeezed(line string) string { return strings.Join(strings.Fields(line), " ") }

// TestDocsTestCommandsFindTests: "go test ./PACKAGE -run NAME" names packages that there are, and tests or benchmarks of theirs.
func TestDocsTestCommandsFindTests(t *testing.T) {
	for _, p := range pagesByPath(t) {
		for _, prefix := range []string{"go test", "GOMLX_BACKEND=go go test", "SEMCON_DATA=DIR go test"} {
			for _, command := range p.Commands(prefix) {
				var names []string
				words := strings.Fields(command)
				for _, word := range words {
					folder, ok := strings.CutPrefix(word, "./")
					if !ok || folder == "..." {
						continue
					}
					files, err := filepath.Glob(filepath.Join(repository, folder, "*_test.go"))
					if err != nil || len(files) == 0 {
						t.Errorf("%s: %q: no tests in %s", p.Path, command, word)
					}
					for _, file := range files {
						text, err := os.ReadFile(file)
						if err != nil {
							t.Fatal(err)
						}
						for _, match := range function.FindAllStringSubmatch(string(text), -1) {
							names = append(names, match[1])
						}
					}
				}
				for i, word := range words[:len(words)-1] {
					pattern, _, _ := strings.Cut(strings.Trim(words[i+1], "'"), "/")
					if word != "-run" && word != "-bench" || pattern == "^$" {
						continue
					}
					matches, err := regexp.Compile(pattern)
					if err != nil || !slices.ContainsFunc(names, matches.MatchString) {
						t.Errorf("%s: %q finds no test", p.Path, command)
					}
				}
			}
		}
	}
}

// TestDocsNameTestsThatExist: a page that rests on `TestX` has it somewhere.
func TestDocsNameTestsThatExist(t *testing.T) {
	named := map[string]string{} // The page of each.
	isTest := regexp.MustCompile(`^Test[A-Z]\w*$`)
	for _, p := range pagesByPath(t) {
		for _, code := range p.Inline {
			if isTest.MatchString(code) {
				named[code] = p.Path
			}
		}
	}
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range function.FindAllStringSubmatch(string(text), -1) {
			delete(named, match[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, page := range named {
		t.Errorf("%s: there is no %s", page, name)
	}
}

func TestPagesAreParsed(t *testing.T) {
	p := parsePage("a/b.md", "# A title: `with` code\nSee [this](c.md#d) and `semcon\nrun x`.\n\n   ```\n   semcon list  # comment\n   ```\n![p](q.png)\n")
	if !slices.Equal(p.Headings, []string{"a-title-with-code"}) || !slices.Equal(p.Links, []string{"c.md#d", "q.png"}) {
		t.Errorf("headings %q, links %q", p.Headings, p.Links)
	}
	if got := p.Commands("semcon"); !slices.Equal(got, []string{"semcon list", "semcon run x"}) {
		t.Errorf("commands %q", got)
	}
}
