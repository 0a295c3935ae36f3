// Package storm is what the tests have in common that make very many calls while
// everything goes wrong: flags, a tally that the next run goes on with, and the rule
// that every kind of fault must have been there.
package storm

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

var (
	calls = flag.Int("storm.calls", 0, "how many calls a storm makes; 0: a few")
	seed  = flag.Uint64("storm.seed", 0, "where its choices begin; 0: anywhere")
	file  = flag.String("storm.file", "", "keeps its tally, with which the next run goes on")
)

// shown is from how many calls on every fault must have been there.
const shown = 10_000

// RunStorm calls pass with one weather after the other until they have made as many calls as
// the flag says, or few. Where that is enough to show every fault and some hardly came, it goes
// on up to twice as many.
func RunStorm(t *testing.T, few int, faults []string, pass func(*testing.T, *Weather)) {
	most := *calls
	if most == 0 {
		most = few
	}
	next := *seed
	if next == 0 {
		next = rand.Uint64()
	}
	total := readTally(t, faults)
	isEnough := func() bool {
		n := total.CountCalls()
		return n >= 2*most || n >= most && (n < shown || len(total.listUnshown()) == 0)
	}
	for ; !isEnough(); next++ {
		t.Logf("-storm.seed %d", next)
		w := &Weather{Tally: newTally(faults), rnd: rand.New(rand.NewPCG(next, 0)), is: make([]bool, len(faults))}
		if !t.Run("", func(t *testing.T) { pass(t, w) }) {
			break
		}
		total.addTally(w.Tally)
		total.writeFile(t)
	}
	t.Log(total)
	if total.CountCalls() >= shown {
		for _, what := range total.listUnshown() {
			t.Error(what)
		}
	}
}

// End says how a call ended.
type End int

const (
	Succeeded    End = iota
	NotDelivered     // and said so
	Failed           // otherwise
	ends
)

// Weather is one span of time in which calls are made. Its methods may be called from
// any goroutine.
type Weather struct {
	*Tally

	mu  sync.Mutex // guards the rest
	rnd *rand.Rand
	is  []bool // by fault: it is there
	due []int  // faults that DrawFault has yet to draw
}

// DrawBelow draws a number below most.
func (w *Weather) DrawBelow(most int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rnd.IntN(most)
}

// DrawMillis draws a time below so many milliseconds.
func (w *Weather) DrawMillis(most int) time.Duration {
	return time.Duration(w.DrawBelow(most)) * time.Millisecond
}

// DrawFault draws one of the first n faults: each comes once before any comes again.
func (w *Weather) DrawFault(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.due) == 0 {
		w.due = w.rnd.Perm(n)
	}
	f := w.due[0]
	w.due = w.due[1:]
	return f
}

// SetFault says whether a fault is there.
func (w *Weather) SetFault(fault int, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.is[fault] = on
}

// HasFault reports whether a fault is there.
func (w *Weather) HasFault(fault int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.is[fault]
}

// ClearFaults ends all faults.
func (w *Weather) ClearFaults() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.is)
}

// Process is a T that runs on one of the machines, which can end and come back.
type Process[T any] struct {
	mu      sync.RWMutex // guards the rest
	running *T
	stop    func()
}

// SetRunning says what runs, and what ends it.
func (p *Process[T]) SetRunning(running *T, stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running, p.stop = running, stop
}

// GetRunning returns what runs, nil while the process is away.
func (p *Process[T]) GetRunning() *T {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.running
}

// Stop ends the process; what it served ends with it.
func (p *Process[T]) Stop() {
	p.mu.Lock()
	stop := p.stop
	p.running = nil
	p.mu.Unlock()
	stop()
}

// Tally counts calls by how they ended, and by the faults during them.
type Tally struct {
	mu     sync.Mutex
	Faults []string  `json:"faults"`
	Ends   [ends]int `json:"ends"`
	Met    []int     `json:"met"` // by fault: calls during which it was there
	begun  []int     // how often the fault began
	there  []int     // how many of it there are now
}

func newTally(faults []string) *Tally {
	n := len(faults)
	return &Tally{Faults: faults, Met: make([]int, n), begun: make([]int, n), there: make([]int, n)}
}

// BeginFault is called when a fault begins, what it returns when it ends.
func (t *Tally) BeginFault(fault int) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun[fault]++
	t.there[fault]++
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.there[fault]--
	})
}

// BeginCall is called when a call begins, what it returns when it has ended.
func (t *Tally) BeginCall() (ended func(End)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	begun := append([]int(nil), t.begun...)
	there := append([]int(nil), t.there...)
	return func(e End) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.Ends[e]++
		for f := range t.Faults {
			if there[f] > 0 || t.begun[f] > begun[f] {
				t.Met[f]++
			}
		}
	}
}

// CountCalls returns how many have ended.
func (t *Tally) CountCalls() (n int) {
	for _, m := range t.Ends {
		n += m
	}
	return n
}

func (t *Tally) addTally(o *Tally) {
	for e, n := range o.Ends {
		t.Ends[e] += n
	}
	for f, n := range o.Met {
		t.Met[f] += n
	}
}

func (t *Tally) String() string {
	n := float64(max(t.CountCalls(), 1)) / 100
	s := fmt.Sprintf("%d calls: %d succeeded, %d surely not delivered, %d failed otherwise; during", t.CountCalls(), t.Ends[Succeeded], t.Ends[NotDelivered], t.Ends[Failed])
	for f, name := range t.Faults {
		s += fmt.Sprintf(" %s %.1f %%", name, float64(t.Met[f])/n)
	}
	return s
}

// listUnshown names the faults and the ends that hardly ever came: nothing was shown of them.
func (t *Tally) listUnshown() (unshown []string) {
	check := func(what string, n int) {
		if n*100 < t.CountCalls() {
			unshown = append(unshown, fmt.Sprintf("%s: %d of %d calls, want 1 %% at least", what, n, t.CountCalls()))
		}
	}
	for f, name := range t.Faults {
		check("during "+name, t.Met[f])
	}
	for e, n := range t.Ends {
		check(fmt.Sprint("ending ", e), n)
	}
	return unshown
}

// readTally returns the tally of the runs before.
func readTally(tb testing.TB, faults []string) *Tally {
	t := newTally(faults)
	if *file == "" {
		return t
	}
	b, err := os.ReadFile(*file)
	if errors.Is(err, fs.ErrNotExist) {
		return t
	}
	if err == nil {
		err = json.Unmarshal(b, t)
	}
	if err != nil || len(t.Met) != len(faults) {
		tb.Fatalf("storm: %s is no tally of this storm: remove it: %v", *file, err)
	}
	t.Faults = faults
	return t
}

func (t *Tally) writeFile(tb testing.TB) {
	if *file == "" {
		return
	}
	b, err := json.Marshal(t)
	if err == nil {
		err = os.WriteFile(*file+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(*file+".new", *file)
	}
	if err != nil {
		tb.Fatal(err)
	}
}
