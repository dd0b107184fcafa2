package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/janpfeifer/must"
	"github.com/semcon/semcon/internal/atomicfile"
)

// gonbModule is the module of the Go kernel, at the version in go.mod.
const gonbModule = "github.com/janpfeifer/gonb"

// kernelChange replaces a text everywhere in a file of the Go kernel.
type kernelChange struct{ file, old, new string }

const goplsClient = "internal/goexec/goplsclient/"

// kernelChanges are what the notebooks need and the Go kernel, GoNB, has no settings for. Without them the first Tab takes 12 to 20 seconds, or fails.
var kernelChanges = []kernelChange{
	// gopls is asked for the packages when a kernel starts, not after 12 seconds, and all kernels share one. A list may take longer than 8 seconds.
	{goplsClient + "exec.go", `time.After(ConnectTimeout)`, `time.After(500 * time.Millisecond)`},
	{goplsClient + "exec.go", `goplsPath, "-listen"`, `goplsPath, "-remote=auto", "-listen"`},
	{goplsClient + "conn.go", `8000 * time.Millisecond`, `time.Minute`},
	// gopls reads the files of the project from the disk. Opening each of them makes it check the whole project at the first Tab.
	{goplsClient + "conn.go", "\tif !previouslyOpened {\n", `	if path.Dir(filePath) != c.dir {
		if !previouslyOpened {
			return nil
		}
		return c.jsonConn.Notify(ctx, lsp.MethodWorkspaceDidChangeWatchedFiles, &lsp.DidChangeWatchedFilesParams{
			Changes: []*lsp.FileEvent{{Type: lsp.FileChangeTypeChanged, URI: fileData.URI}}})
	}
	if !previouslyOpened {
`},
	// Of packages that are not imported yet, gopls lists the names twice, and the tests.
	{goplsClient + "goplsclient.go", "\t\tmatches = append(matches, edit.NewText)\n", `		unwanted := false
		for _, match := range matches {
			unwanted = unwanted || match == edit.NewText
		}
		for _, test := range []string{"Test[A-Z]*", "Benchmark[A-Z]*", "Example[A-Z]*", "Fuzz[A-Z]*"} {
			isTest, _ := path.Match(test, edit.NewText)
			unwanted = unwanted || isTest && item.Kind == lsp.CompletionItemKindFunction
		}
		if !unwanted {
			matches = append(matches, edit.NewText)
		}
`},
	// A cell that ends with an error shows the exit status and the line of the cell once.
	{"internal/jpyexec/jpyexec.go", `if exec.exitError != nil {`, `if exec.exitError != nil && !exec.useNamedPipes {`},
	{"internal/goexec/execcode.go", `if len(annotator.errorLines) > 0 {`, `if len(annotator.errorLines) > 1 {`},
	{"internal/goexec/gonberror.go", "\tlines := strings.Split(errorMsg, \"\\n\")\n", `	errorMsg = regexp.MustCompile("expected declaration, found .*").
		ReplaceAllString(errorMsg, "$0 (is a line %% missing? Statements stand below one.)")
	lines := strings.Split(errorMsg, "\n")
`},
}

// installKernel returns the task that builds the tools in go.mod, the Go kernel with kernelChanges among them. Go replaces no file of a module in its cache. So the
// build takes the module through a link, with a go.mod beside the project's own.
func (in install) installKernel(m machine) setupTask {
	folder := in.dir("kernel")
	build := in.goTask(m, "install", "-modfile="+filepath.Join(folder, "go.mod"), "-overlay="+filepath.Join(folder, "overlay.json"), "tool")
	return setupTask{"Go kernel", func(ctx context.Context, out *transcript) error {
		download := exec.CommandContext(ctx, m.goTool, "mod", "download", "-json", gonbModule)
		download.Dir, download.Env, download.Stderr = in.root, append(os.Environ(), "GOWORK=off"), out
		said, err := download.Output()
		var module struct{ Dir, Error string }
		if json.Unmarshal(said, &module); err != nil {
			out.Write([]byte(module.Error + "\n"))
			return err
		}
		link := filepath.Join(folder, "gonb")
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
		files, err := changedFiles(module.Dir, kernelChanges)
		if err != nil {
			return err
		}
		overlay := map[string]map[string]string{"Replace": {}}
		for name, content := range files {
			changed := filepath.Join(folder, "changed", name)
			overlay["Replace"][filepath.Join(link, name)] = changed
			if err := atomicfile.WriteBytes(changed, content); err != nil {
				return err
			}
		}
		mod, sum := in.modules("")
		mod += fmt.Sprintf("\nreplace %s => %q\n", gonbModule, link)
		for name, content := range map[string][]byte{"go.mod": []byte(mod), "go.sum": []byte(sum), "overlay.json": must.M1(json.Marshal(overlay))} {
			if err := atomicfile.WriteBytes(filepath.Join(folder, name), content); err != nil {
				return err
			}
		}
		if err := os.Symlink(module.Dir, link); err != nil {
			return err
		}
		return build(ctx, out)
	}}
}

// changedFiles returns the files of a module that changes are made in, with them.
func changedFiles(module string, changes []kernelChange) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, c := range changes {
		if files[c.file] == nil {
			content, err := os.ReadFile(filepath.Join(module, c.file))
			if err != nil {
				return nil, err
			}
			files[c.file] = content
		}
		if !strings.Contains(string(files[c.file]), c.old) {
			return nil, fmt.Errorf("%s of this version of the Go kernel has no %q, which set-up changes", c.file, c.old)
		}
		files[c.file] = []byte(strings.ReplaceAll(string(files[c.file]), c.old, c.new))
	}
	return files, nil
}
