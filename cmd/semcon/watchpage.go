package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/page"
	"github.com/semcon/semcon/sccore/report"
)

//go:embed watch.html
var watchText string

var watchTemplate = page.Template(watchText)

// serveRuns serves the page on this machine alone until ctx ends, which is the normal end.
func serveRuns(ctx context.Context, folder string, port int) error {
	listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return fmt.Errorf("--port %d: %w", port, err)
	}
	token := rand.Text()
	server := &http.Server{Handler: runsPage{folder, token}, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	_, chosen, _ := net.SplitHostPort(listener.Addr().String()) // It is an address.
	fmt.Printf("the runs of %s are at http://127.0.0.1:%s/?token=%s\nCtrl-C ends it. From another machine: ssh -L %[2]s:127.0.0.1:%[2]s HOST\n", folder, chosen, token)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// runsPage answers requests that have the token: for the page, for what it shows as it is now, and for a row of curves.
type runsPage struct{ folder, token string }

// shownRun is a run on the page.
type shownRun struct {
	report.Run
	Letter string // Of its series in the curves; empty if they do not show it.
}

// curvesInRow is how many curves stand beside each other.
const curvesInRow = 3

// ServeHTTP implements [http.Handler].
func (p runsPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query, header := r.URL.Query(), w.Header()
	header.Set("Content-Security-Policy", "default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; form-action 'self'")
	header.Set("Referrer-Policy", "no-referrer")
	if subtle.ConstantTimeCompare([]byte(query.Get("token")), []byte(p.token)) == 0 {
		http.Error(w, "the address needs the token that semcon watch has printed", http.StatusForbidden)
		return
	}
	runs, err := report.Runs(p.folder)
	shown := struct {
		Folder, Token, About string
		Runs                 []shownRun
		Rows                 []string // Addresses of pictures.
	}{Folder: p.folder, Token: p.token, About: describeRuns(p.folder, runs)}
	var drawn []report.Run
	for _, run := range runs {
		shown.Runs = append(shown.Runs, shownRun{Run: run})
	}
	if len(runs) > 0 {
		for i, place := range chosenRuns(runs, query["run"]...) {
			drawn, shown.Runs[place].Letter = append(drawn, runs[place]), string(rune('A'+i))
		}
	}
	rows := slices.Collect(slices.Chunk(report.Curves(drawn...), curvesInRow))
	part := map[string]string{"/": "page", "/state": "state"}[r.URL.Path]
	switch at, none := strconv.Atoi(query.Get("row")); {
	case err != nil:
	case part != "":
		for i, row := range rows {
			query.Set("row", strconv.Itoa(i))
			query.Set("of", fmt.Sprintf("%08x", crc32.ChecksumIEEE(fmt.Append(nil, row)))) // The address changes with the curves.
			shown.Rows = append(shown.Rows, "curves.svg?"+query.Encode())
		}
		err = watchTemplate.ExecuteTemplate(w, part, shown)
	case r.URL.Path == "/curves.svg" && none == nil && at >= 0 && at < len(rows):
		var svg []byte
		if svg, _, err = figures.Render(figures.CurvesRow(rows[at])); err == nil {
			header.Set("Content-Type", "image/svg+xml")
			header.Set("Cache-Control", "max-age=3600")
			w.Write(svg)
		}
	default:
		http.NotFound(w, r)
	}
	if err != nil {
		http.Error(w, oneLine(err), http.StatusInternalServerError)
	}
}
