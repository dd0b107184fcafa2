package settings

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dsnet/try"
	"github.com/samber/lo"
)

// Check returns an error that names the first setting of a configuration, a struct, that is not what its tag allows: the key as [Apply] takes it, the
// value, and what is allowed. Settings are what [List] lists, and also elements of lists, maps and what pointers point to. Nil pointers and groups that
// do not apply, which "omitzero" omits, are not checked.
//
// A struct at any depth may have a method Rules() error for rules between its fields. It is called where all tags of the struct hold. Its error begins with
// the key within the struct, and gets the key of the struct in front.
func Check(config any) error { return CheckGroup("", config) }

// Require panics with the error of [Check]. It is for graph code, whose panics become errors where a package returns.
func Require(config any) {
	if err := Check(config); err != nil {
		panic(err)
	}
}

// CheckGroup is [Check] of a group of a configuration, with the group's key in front of keys.
func CheckGroup(key string, group any) error {
	if err := check(key, reflect.ValueOf(group), ""); err != nil {
		return Invalid{err}
	}
	return nil
}

// Invalid is the error of [Check] for a setting. Callers that know where the setting is from put its flag before the text.
type Invalid struct{ error }

// Unwrap returns the error of the setting.
func (i Invalid) Unwrap() error { return i.error }

func check(key string, value reflect.Value, tag reflect.StructTag) (err error) {
	defer try.Handle(&err)
	switch value.Kind() {
	case reflect.Pointer, reflect.Interface:
		if value.IsNil() {
			return nil
		}
		return check(key, value.Elem(), tag)
	case reflect.Struct:
		for m := range membersOf(key, value) {
			if m.field.Tag.Get("range") != "-" {
				try.E(check(m.key, m.value, m.field.Tag))
			}
		}
		if !value.CanInterface() {
			return nil
		}
		if ruled, ok := value.Interface().(interface{ Rules() error }); ok {
			if err := ruled.Rules(); err != nil {
				return fmt.Errorf("%s%w", Key(below(key)), err)
			}
		}
		return nil
	case reflect.Slice, reflect.Array:
		for i := range value.Len() {
			element := lo.Ternary(value.Type().Elem().Kind() == reflect.Struct, fmt.Sprintf("%s[%d]", key, i), key)
			try.E(check(element, value.Index(i), tag))
		}
		return nil
	case reflect.Map:
		keys := value.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		for _, k := range keys {
			try.E(check(below(key)+fmt.Sprint(k), value.MapIndex(k), tag))
		}
		return nil
	}
	return allowedBy(tag).check(key, value)
}

// allowed is what a tag allows: numbers in intervals, or texts.
type allowed struct {
	intervals []interval
	texts     []string
}

// tags keeps what each tag allows: configurations are checked thousands of times.
var tags sync.Map

// allowedBy reads the tags range and oneof. It panics if a range cannot be read.
func allowedBy(tag reflect.StructTag) (a allowed) {
	if known, ok := tags.Load(tag); ok {
		return known.(allowed)
	}
	if texts, ok := tag.Lookup("oneof"); ok {
		a.texts = strings.Split(texts, "|")
	}
	if ranges, ok := tag.Lookup("range"); ok {
		for text := range strings.SplitSeq(ranges, "|") {
			a.intervals = append(a.intervals, parseInterval(text))
		}
	}
	tags.Store(tag, a)
	return a
}

func (a allowed) check(key string, value reflect.Value) error {
	if a.texts != nil {
		if text := fmt.Sprint(value); !slices.Contains(a.texts, text) {
			return fmt.Errorf("%s %q: want %s", Key(key), text, a)
		}
	}
	if a.intervals == nil {
		return nil
	}
	return a.number(key, value.Convert(reflect.TypeFor[float64]()).Float())
}

func (a allowed) number(key string, x float64) error {
	switch {
	case slices.ContainsFunc(a.intervals, func(i interval) bool {
		return (i.low < x || i.low == x && !i.openLow) && (x < i.high || x == i.high && !i.openHigh)
	}):
		return nil
	case len(a.intervals) == 1:
		return fmt.Errorf("%s %s is not %s", Key(key), text(x), a)
	}
	return fmt.Errorf("%s %s: want %s", Key(key), text(x), a)
}

// String says in words what is allowed, or nothing where everything is.
func (a allowed) String() string {
	words := lo.Map(a.texts, func(text string, _ int) string { return cmp.Or(text, "nothing") })
	return Or(append(words, lo.Map(a.intervals, func(i interval, _ int) string { return i.String() })...))
}

// Or lists words as a sentence does: "a, b or c".
func Or(words []string) string {
	if last := len(words) - 1; last > 0 {
		return strings.Join(words[:last], ", ") + " or " + words[last]
	}
	return strings.Join(words, "")
}

// interval is a range of numbers. A bound is in it unless it is open. NaN is in none.
type interval struct {
	low, high         float64
	openLow, openHigh bool
}

func parseInterval(text string) interval {
	number := func(text string, empty float64) float64 {
		if text == "" {
			return empty
		}
		base, exponent, isPower := strings.Cut(text, "^")
		x, err := strconv.ParseFloat(base, 64)
		if isPower && err == nil {
			var e float64
			e, err = strconv.ParseFloat(exponent, 64)
			x = math.Pow(x, e)
		}
		if err != nil {
			panic(fmt.Sprintf("settings: range: %v", err))
		}
		return x
	}
	low, high, ok := strings.Cut(text, ",")
	if !ok {
		return interval{low: number(text, math.NaN()), high: number(text, math.NaN())}
	}
	first, last := low[0], high[len(high)-1]
	if first != '[' && first != '(' || last != ']' && last != ')' {
		panic(fmt.Sprintf("settings: range %q", text))
	}
	return interval{number(low[1:], math.Inf(-1)), number(high[:len(high)-1], math.Inf(1)), first == '(', last == ')'}
}

func (i interval) String() string {
	low, high := lo.Ternary(i.openLow, "above ", "at least ")+text(i.low), lo.Ternary(i.openHigh, "below ", "at most ")+text(i.high)
	switch {
	case i.low == i.high:
		return text(i.low)
	case math.IsInf(i.high, 1):
		return low
	case math.IsInf(i.low, -1):
		return high
	case !i.openLow && !i.openHigh:
		return fmt.Sprintf("between %s and %s", text(i.low), text(i.high))
	}
	return low + " and " + high
}

// text writes whole numbers with all digits, as users set them.
func text(value float64) string {
	return lo.Ternary(value == math.Trunc(value) && math.Abs(value) < 1e15, strconv.FormatInt(int64(value), 10), fmt.Sprint(value))
}

// MaxBytes is the most that one array may take whose size follows from settings. Larger ones are slips of the finger, and would end the process.
const MaxBytes = 2 << 30

// MaxDeviceBytes is the same for arrays within a compiled step, which a GPU may hold.
const MaxDeviceBytes = 16 << 30

// InRange returns an error that names a number, unless it is in ranges, which are as in tags; see [Check].
func InRange(name, ranges string, value float64) error {
	return allowedBy(reflect.StructTag(fmt.Sprintf("range:%q", ranges))).number(name, value)
}

// Between returns an error that names a setting, unless low ≤ value ≤ high. It is for bounds that follow from other settings; others are tags, see
// [Check]. NaN is out of range.
func Between[N int | float64](name string, value, low, high N) error {
	return allowed{intervals: []interval{{low: float64(low), high: float64(high)}}}.number(name, float64(value))
}

// Fit returns an error if the product of factors, the bytes of an array, exceeds most. what names the settings behind it with their values.
func Fit(most int, what string, factors ...int) error {
	bytes := 1.0
	for _, factor := range factors {
		bytes *= math.Max(0, float64(factor))
	}
	if bytes > float64(most) {
		return fmt.Errorf("%s: an array of %.3g GiB, more than %d", what, bytes/(1<<30), most>>30)
	}
	return nil
}
