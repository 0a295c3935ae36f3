package metrics

import (
	"strconv"
	"strings"
	"sync"
	"testing"
)

func render(f Family) string { return string(AppendFamilies(nil, []Family{f})) }

func TestText(t *testing.T) {
	mails := NewCounts(ClosedLabel{"direction", []string{"in", "out"}}, ClosedLabel{"result", []string{"stored", "other"}})
	mails.Add(3, "out", "stored")
	mails.Add(1, "in", "a word of a peer")
	got := string(AppendFamilies([]byte("# before\n"), []Family{
		{Name: "mails_total", Type: Counter, Help: "Deliveries,\nby \\ result.", Write: mails.Write},
		{Name: "nothing", Type: Gauge, Help: "No series, no family.", Write: func(*Text) {}},
		{Name: "up", Type: Gauge, Help: "Whether.", Write: func(t *Text) { t.Add(1) }},
		{Name: "info", Type: Gauge, Help: "What.", Write: func(t *Text) { t.Add(0.25, Label{"name", "a\"b\\c\nd"}) }},
	}))
	want := `# before
# HELP mails_total Deliveries,\nby \\ result.
# TYPE mails_total counter
mails_total{direction="in",result="stored"} 0
mails_total{direction="in",result="other"} 1
mails_total{direction="out",result="stored"} 3
mails_total{direction="out",result="other"} 0
# HELP up Whether.
# TYPE up gauge
up 1
# HELP info What.
# TYPE info gauge
info{name="a\"b\\c\nd"} 0.25
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if n := mails.Get("out", "stored"); n != 3 {
		t.Errorf("%d", n)
	}
}

func TestHistogram(t *testing.T) {
	h := NewHistograms(0.001, []float64{0.01, 0.1}, ClosedLabel{"kind", []string{"query", "notify"}})
	for _, ms := range []int64{-5, 10, 11, 100, 101, 5000} {
		h.Observe(ms, "query")
	}
	got := render(Family{Name: "took_seconds", Type: HistogramType, Help: "Time.", Write: h.Write})
	want := `# HELP took_seconds Time.
# TYPE took_seconds histogram
took_seconds_bucket{kind="query",le="0.01"} 2
took_seconds_bucket{kind="query",le="0.1"} 4
took_seconds_bucket{kind="query",le="+Inf"} 6
took_seconds_sum{kind="query"} 5.222
took_seconds_count{kind="query"} 6
took_seconds_bucket{kind="notify",le="0.01"} 0
took_seconds_bucket{kind="notify",le="0.1"} 0
took_seconds_bucket{kind="notify",le="+Inf"} 0
took_seconds_sum{kind="notify"} 0
took_seconds_count{kind="notify"} 0
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	bare := NewHistograms(1, []float64{1})
	bare.Observe(1)
	if got := render(Family{Name: "n", Type: HistogramType, Help: "N.", Write: bare.Write}); !strings.Contains(got, "\nn_bucket{le=\"1\"} 1\nn_bucket{le=\"+Inf\"} 1\nn_sum 1\nn_count 1\n") {
		t.Errorf("%s", got)
	}
}

// Nothing is lost when many count and somebody reads.
func TestCountingTogether(t *testing.T) {
	c, h := NewCounts(ClosedLabel{"a", []string{"x", "y"}}), NewHistograms(1, []float64{1})
	o := NewOutcomes(ClosedLabel{"outcome", []string{"ok", "busy"}}, 1, []float64{1})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				c.Add(1, "y")
				h.Observe(2)
				o.Add(1, "busy")
			}
		})
	}
	for range 10 {
		render(Family{Name: "h", Type: HistogramType, Write: h.Write})
	}
	all.Wait()
	if n := c.Get("y"); n != 8000 {
		t.Errorf("%d counts", n)
	}
	if got := render(Family{Name: "o", Type: Counter, Write: o.WriteCounts}); !strings.Contains(got, "\no{outcome=\"busy\"} 8000\n") {
		t.Errorf("%s", got)
	}
	if got := render(Family{Name: "h", Type: HistogramType, Write: h.Write}); !strings.Contains(got, "h_sum 16000\nh_count 8000\n") {
		t.Errorf("%s", got)
	}
}

// To count costs no memory.
func TestCountingAllocatesNothing(t *testing.T) {
	labels := []ClosedLabel{{"direction", []string{"in", "out"}}, {"kind", []string{"query", "notify"}}}
	c, h := NewCounts(labels...), NewHistograms(1e-9, []float64{1}, labels...)
	o := NewOutcomes(ClosedLabel{"outcome", []string{"ok", "busy"}}, 1e-9, []float64{1}, labels...)
	direction, kind := strings.Clone("out"), strings.Clone("notify")
	if n := testing.AllocsPerRun(100, func() {
		c.Add(1, direction, kind)
		h.Observe(5, direction, kind)
		o.Add(5, "ok", direction, kind)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Whatever a label's value holds, it stays one value on one line of UTF-8.
func FuzzLabelValue(f *testing.F) {
	f.Add("laptop")
	f.Add("a\"} 1\nup 0")
	f.Add("\\\r\x00\xff")
	f.Fuzz(func(t *testing.T, value string) {
		got := render(Family{Name: "up", Type: Gauge, Help: "Whether.", Write: func(t *Text) { t.Add(1, Label{"name", value}) }})
		line, ok := strings.CutPrefix(got, "# HELP up Whether.\n# TYPE up gauge\nup{name=")
		line, ended := strings.CutSuffix(line, "} 1\n")
		if !ok || !ended || strings.Contains(line, "\n") {
			t.Fatalf("%q", got)
		}
		inner := strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\"`, `"`).Replace(line[1 : len(line)-1])
		if want := strings.ToValidUTF8(value, "\uFFFD"); inner != want {
			t.Errorf("%q reads as %q, want %q", line, inner, want)
		}
	})
}

func TestOutcomes(t *testing.T) {
	o := NewOutcomes(ClosedLabel{"outcome", []string{"ok", "busy", "other"}}, 1, []float64{10}, ClosedLabel{"kind", []string{"query", "notify"}})
	o.Add(7, "ok", "query")
	o.Add(70, "ok", "query")
	o.Add(8, "a word of a peer", "query")
	o.Add(9, "busy", "notify")
	got := render(Family{Name: "calls", Type: Counter, Help: "Calls.", Write: o.WriteCounts}) + render(Family{Name: "took", Type: HistogramType, Help: "Time.", Write: o.WriteValues})
	want := `# HELP calls Calls.
# TYPE calls counter
calls{kind="query",outcome="ok"} 2
calls{kind="query",outcome="busy"} 0
calls{kind="query",outcome="other"} 1
calls{kind="notify",outcome="ok"} 0
calls{kind="notify",outcome="busy"} 1
calls{kind="notify",outcome="other"} 0
# HELP took Time.
# TYPE took histogram
took_bucket{kind="query",le="10"} 2
took_bucket{kind="query",le="+Inf"} 3
took_sum{kind="query"} 85
took_count{kind="query"} 3
took_bucket{kind="notify",le="10"} 1
took_bucket{kind="notify",le="+Inf"} 1
took_sum{kind="notify"} 9
took_count{kind="notify"} 1
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What a count costs while another core counts the same: apart, and together as Outcomes.
func BenchmarkCount(b *testing.B) {
	var kinds []string
	for i := range 8 {
		kinds = append(kinds, "kind"+strconv.Itoa(i))
	}
	labels, outcome := []ClosedLabel{{"direction", []string{"in", "out"}}, {"kind", kinds}}, ClosedLabel{"outcome", []string{"ok", "other"}}
	bounds := []float64{.0005, .001, .0025, .005, .01, .025, .1, .25, 1, 2.5, 10, 60, 300}
	c, h := NewCounts(append(labels, outcome)...), NewHistograms(1e-9, bounds, labels...)
	o := NewOutcomes(outcome, 1e-9, bounds, labels...)
	run := func(name string, count func()) {
		b.Run(name, func(b *testing.B) {
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					count()
				}
			})
		})
	}
	run("apart", func() { c.Add(1, "out", "kind6", "ok"); h.Observe(700_000, "out", "kind6") })
	run("together", func() { o.Add(700_000, "ok", "out", "kind6") })
}
