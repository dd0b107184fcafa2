package study

import (
	"strings"
	"testing"
)

func TestWorkersKeepTheirKeyAsLongAsThereAreCells(t *testing.T) {
	key := func(cell string) string { return cell[:1] }
	take := func(q *queue[string], last *string, before *bool) string {
		cell, ok := q.next(*last, *before)
		if !ok {
			return "-"
		}
		*last, *before = key(cell), true
		return cell
	}
	// One worker runs the cells of a key one after the other.
	q := newQueue([]string{"a1", "b1", "a2", "b2"}, key)
	last, before := "", false
	var order []string
	for range 5 {
		order = append(order, take(q, &last, &before))
	}
	if got := strings.Join(order, " "); got != "a1 a2 b1 b2 -" {
		t.Errorf("one worker runs %s", got)
	}
	// Two take a key each, and the one that is done first helps the other.
	q = newQueue([]string{"a1", "a2", "a3", "b1"}, key)
	var lasts [2]string
	var befores [2]bool
	order = nil
	for _, worker := range []int{0, 1, 1, 0, 1, 0} {
		order = append(order, take(q, &lasts[worker], &befores[worker]))
	}
	if got := strings.Join(order, " "); got != "a1 b1 a2 a3 - -" {
		t.Errorf("two workers run %s", got)
	}
}
