package study

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/filelock"
	"github.com/semcon/semcon/internal/jsonstream"
)

// RunsFile holds an experiment's records, in its folder.
const RunsFile = "runs.jsonl"

// BrokenFile receives the broken lines that [Repair] and [Record.Append] move, in an experiment's folder.
const BrokenFile = "runs.broken.jsonl"

// maxLine is the longest line of a records file that is read, in bytes. The longest that an experiment has written has a few KiB.
const maxLine = 16 << 20

// Append adds the record with a digest of its line to dir/runs.jsonl: one line in one synced write, with one writer at a time on the whole machine. A last line that a
// kill cut short is removed first: its run has no record and runs again. A damaged last line with a digest is moved to [BrokenFile].
func (r Record) Append(dir string) (err error) {
	path := filepath.Join(dir, RunsFile)
	defer try.HandleF(&err, func() { err = fmt.Errorf("recording in %s: %w", path, err) })
	line := try.E1(json.Marshal(r))
	try.E1(parseRecord(line))
	try.E(os.MkdirAll(dir, 0o777))
	defer try.E1(filelock.Wait(context.Background(), path+".lock", nil))()
	file := try.E1(os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666))
	defer file.Close()
	try.E(removeTail(file, dir))
	try.E1(fmt.Fprintf(file, "%s,\"digest\":%q}\n", line[:len(line)-1], Hash(line)))
	try.E(file.Sync())
	return nil
}

// digestBegin stands in lines that were written to their end.
var digestBegin = []byte(`,"digest":"`)

// removeTail cuts off whatever follows the last line break, unless it is a record. What has a digest is kept in [BrokenFile].
func removeTail(file *os.File, dir string) (err error) {
	defer try.Handle(&err)
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a regular file")
	}
	try.E(err)
	begin := max(0, info.Size()-maxLine)
	tail := make([]byte, info.Size()-begin)
	try.E1(file.ReadAt(tail, begin))
	last := bytes.LastIndexByte(tail, '\n') + 1
	switch _, err := parseRecord(tail[last:]); {
	case last == len(tail): // Nothing follows.
		return nil
	case last == 0 && begin > 0:
		return fmt.Errorf("its last line is longer than %d MiB", maxLine>>20)
	case err == nil:
		_, err := file.Write([]byte{'\n'})
		return err
	case bytes.Contains(tail[last:], digestBegin):
		try.E(setAside(dir, append(tail[last:], '\n')))
	}
	return file.Truncate(begin + int64(last))
}

// Records reads the records of the experiment whose folder is dir; it returns none if the experiment has not run. Fields that records of earlier versions lack are
// filled in. It skips broken lines, which [BrokenLines] lists.
func Records(dir string) ([]Record, error) {
	records, _, err := readRecords(dir)
	return records, err
}

// BrokenLines lists, with file and line number, the lines of an experiment's records file that are not records, or whose digest does not fit their content. It does
// not list a last line without a line break and a digest: a kill has cut it short, and its run runs again.
func BrokenLines(dir string) ([]string, error) {
	_, broken, err := readRecords(dir)
	return broken, err
}

func readRecords(dir string) (records []Record, broken []string, err error) {
	path := filepath.Join(dir, RunsFile)
	err = eachLine(path, func(number int, line []byte) {
		r, err := parseRecord(line)
		switch {
		case err == nil:
			r.Line, r.Folder = number, dir
			records = append(records, r)
		case bytes.HasSuffix(line, []byte{'\n'}) || bytes.Contains(line, digestBegin):
			broken = append(broken, fmt.Sprintf("%s, line %d is not a record: %v", path, number, err))
		}
	})
	for i := range records {
		records[i].LeftOut = len(broken)
	}
	upgrade(records)
	return records, broken, err
}

// eachLine calls each with the lines of a file that are not blank, with their line breaks. A file that is not there has none.
func eachLine(path string, each func(number int, line []byte)) (err error) {
	defer try.Handle(&err)
	file, err := jsonstream.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	try.E(err)
	defer file.Close()
	number, lines := 0, bufio.NewScanner(file)
	lines.Buffer(nil, maxLine)
	lines.Split(func(data []byte, atEnd bool) (int, []byte, error) {
		end, _, err := bufio.ScanLines(data, atEnd)
		return end, lo.Ternary(end > 0, data[:end], nil), err // With the line break.
	})
	for lines.Scan() {
		number++
		if line := lines.Bytes(); len(bytes.TrimSpace(line)) > 0 {
			each(number, line)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("%s, line %d: longer than %d MiB", path, number+1, maxLine>>20)
	}
	return lines.Err()
}

// digestField is the end of a line with a digest: of the record that stands before it, with its closing brace.
var digestField = regexp.MustCompile(`,"digest":"([0-9a-f]*)"}$`)

// parseRecord reads one line. Lines of earlier versions have no digest; every field of them is known.
func parseRecord(line []byte) (r Record, err error) {
	defer try.Handle(&err)
	line = bytes.TrimSpace(line)
	if at := digestField.FindSubmatchIndex(line); at != nil {
		digest := string(line[at[2]:at[3]])
		if line = append(line[:at[0]:at[0]], '}'); Hash(line) != digest {
			return r, errors.New("its digest is not that of its content")
		}
	} else {
		strict := json.NewDecoder(bytes.NewReader(line))
		strict.DisallowUnknownFields()
		try.E(strict.Decode(&r))
	}
	r = Record{}
	try.E(json.Unmarshal(line, &r))
	if r.Cell == "" {
		return r, errors.New("the cell is missing")
	}
	if !bytes.HasPrefix(r.Config, []byte{'{'}) {
		return r, errors.New("the configuration is missing")
	}
	return r, nil
}

// Repair moves the broken lines of an experiment's records to [BrokenFile] and returns their number.
func Repair(dir string) (moved int, err error) {
	defer try.Handle(&err)
	path := filepath.Join(dir, RunsFile)
	defer try.E1(filelock.Wait(context.Background(), path+".lock", nil))()
	var whole, aside []byte
	if err := eachLine(path, func(_ int, line []byte) {
		if _, err := parseRecord(line); err != nil {
			aside = append(append(aside, bytes.TrimRight(line, "\n")...), '\n')
			moved++
		} else {
			whole = append(whole, line...)
		}
	}); err != nil || moved == 0 {
		return 0, err
	}
	try.E(setAside(dir, aside))
	return moved, atomicfile.WriteBytes(path, whole)
}

// setAside adds broken lines to their file, before they leave the records: a kill in between duplicates them and loses none.
func setAside(dir string, lines []byte) (err error) {
	defer try.Handle(&err)
	kept := filepath.Join(dir, BrokenFile)
	return atomicfile.WriteBytes(kept, append(try.E1(readIfThere(kept)), lines...))
}

// readIfThere reads a file. One that is not there is empty.
func readIfThere(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return content, err
}
