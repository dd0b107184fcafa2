// Torture kills experiments at random moments until they end, and compares what they leave with an uninterrupted run:
//
//	go run ./internal/torture --minutes 3
//
// It runs smoke profiles on the engine that $GOMLX_BACKEND names, one experiment after the other in the order that the seed draws, with short times between
// checkpoints. Each kill is a SIGKILL, which no program can answer. It prints what it did. The exit status is 1 if anything differs, and the two folders are
// then kept.
package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/semcon/semcon/internal/torture/samerun"
)

// training are the experiments that train.
var training = []string{"noise-tolerance", "transfer", "main", "pretrain", "teacher-quality", "effect-aug", "ablation"}

func main() { os.Exit(run(os.Args[1:], os.Stdout)) }

func run(args []string, out io.Writer) int {
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	flags.SetOutput(out)
	minutes := flags.Float64("minutes", 3, "`TIME` in minutes, after which the last experiment ends without more kills")
	seed := flags.Uint64("seed", uint64(time.Now().UnixNano()), "`NUMBER` that draws the moments; they still depend on the speed of the machine")
	name := flags.String("experiment", "", "torture this `EXPERIMENT` alone; by default all that train, in turn")
	binary := flags.String("semcon", "", "`FILE` of the binary; by default it is built")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if !(*minutes > 0) || flags.NArg() > 0 {
		fmt.Fprintln(out, "torture: want --minutes above 0 and nothing after the flags")
		return 2
	}
	t := torture{out: out, random: rand.New(rand.NewPCG(*seed, 0)), wholes: map[string]whole{}}
	names := slices.Clone(training)
	t.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	if *name != "" {
		names = []string{*name}
	}
	fmt.Fprintf(out, "torture: seed %d, engine %s\n", *seed, cmp.Or(os.Getenv("GOMLX_BACKEND"), "as semcon chooses"))
	if err := t.all(names, *binary, time.Duration(*minutes*float64(time.Minute))); err != nil {
		fmt.Fprintf(out, "torture: %v\n", err)
		return 1
	}
	fmt.Fprintf(out, "torture: %d kills of %d runs, %d files and %d records compared: all are the same\n", t.kills, t.runs, t.files, t.records)
	return 0
}

// torture is what one call does.
type torture struct {
	out      io.Writer
	random   *rand.Rand
	deadline time.Time
	dir      string // Of the binary and all runs.
	binary   string
	wholes   map[string]whole

	kills, runs, files, records int
}

// whole is an uninterrupted run.
type whole struct {
	out  string
	took time.Duration
}

// all tortures the experiments in turn until the time is over, each one at least once if there is time for its uninterrupted run.
func (t *torture) all(names []string, binary string, length time.Duration) (err error) {
	if t.dir, err = os.MkdirTemp("", "torture"); err != nil {
		return err
	}
	if t.binary = binary; binary == "" {
		t.binary = filepath.Join(t.dir, "semcon")
		if built, err := exec.Command("go", "build", "-o", t.binary, "github.com/semcon/semcon/cmd/semcon").CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w\n%s", err, built)
		}
	}
	t.deadline = time.Now().Add(length)
	for i := 0; i == 0 || time.Now().Before(t.deadline); i++ {
		if err := t.one(names[i%len(names)]); err != nil {
			return fmt.Errorf("%w\nthe runs are kept in %s", err, t.dir)
		}
	}
	return os.RemoveAll(t.dir)
}

// one kills an experiment until it ends, and compares.
func (t *torture) one(name string) error {
	want, ok := t.wholes[name]
	if !ok {
		want.out = filepath.Join(t.dir, name, "whole")
		begun := time.Now()
		if _, err := t.start(name, want.out, 20*time.Second, 0); err != nil {
			return err
		}
		want.took = time.Since(begun)
		t.wholes[name] = want
		if t.runs > 0 && time.Now().After(t.deadline) {
			return nil
		}
	}
	got, kills, begun := filepath.Join(t.dir, name, fmt.Sprintf("killed%d", t.runs)), 0, time.Now()
	for {
		// Most attempts are short against the run, and some long, so that it ends. After the time is over none is killed, except once.
		limit := time.Duration(max(1, t.random.ExpFloat64()*float64(want.took)/3))
		if kills > 0 && time.Now().After(t.deadline) {
			limit = 0
		}
		every := []time.Duration{0, 20 * time.Millisecond, 200 * time.Millisecond}[t.random.IntN(3)]
		killed, err := t.start(name, got, every, limit)
		if err != nil {
			return fmt.Errorf("after %d kills: %w", kills, err)
		}
		if !killed {
			break
		}
		kills++
	}
	result, err := samerun.Compare(want.out, got)
	if err != nil {
		return err
	}
	t.kills, t.runs, t.files, t.records = t.kills+kills, t.runs+1, t.files+result.Files, t.records+result.Records
	fmt.Fprintf(t.out, "%s: %d kills in %.1f s (%.1f s without): %d files, %d records", name, kills, time.Since(begun).Seconds(), want.took.Seconds(),
		result.Files, result.Records)
	if len(result.Differences) > 0 {
		fmt.Fprintln(t.out)
		return fmt.Errorf("%s differs after %d kills:\n%s", name, kills, strings.Join(result.Differences, "\n"))
	}
	fmt.Fprintln(t.out, " are the same")
	return os.RemoveAll(got)
}

// start runs an experiment and kills it after a time, if that is positive. It returns an error if the run fails by itself.
func (t *torture) start(name, out string, checkpointEvery, limit time.Duration) (killed bool, err error) {
	c := exec.Command(t.binary, "run", name, "--profile", "smoke", "--out", out, "--checkpoint-every", checkpointEvery.String())
	c.Env = append(os.Environ(), "SEMCON_DATA=")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Its children are killed with it.
	var stderr bytes.Buffer
	c.Stdout, c.Stderr = &stderr, &stderr
	if err := c.Start(); err != nil {
		return false, err
	}
	if limit > 0 {
		timer := time.AfterFunc(limit, func() { syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
		defer timer.Stop()
	}
	err = c.Wait()
	if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && limit > 0 && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return true, nil
	}
	if err != nil {
		said := strings.TrimSpace(stderr.String())
		return false, fmt.Errorf("%s: %w: %s", strings.Join(c.Args[1:], " "), err, said[strings.LastIndexAny(said, "\r\n")+1:])
	}
	return false, nil
}
