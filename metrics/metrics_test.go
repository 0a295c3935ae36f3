package metrics

import (
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
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				c.Add(1, "y")
				h.Observe(2)
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
	if got := render(Family{Name: "h", Type: HistogramType, Write: h.Write}); !strings.Contains(got, "h_sum 16000\nh_count 8000\n") {
		t.Errorf("%s", got)
	}
}

// To count costs no memory.
func TestCountingAllocatesNothing(t *testing.T) {
	labels := []ClosedLabel{{"direction", []string{"in", "out"}}, {"kind", []string{"query", "notify"}}}
	c, h := NewCounts(labels...), NewHistograms(1e-9, []float64{1}, labels...)
	direction, kind := strings.Clone("out"), strings.Clone("notify")
	if n := testing.AllocsPerRun(100, func() {
		c.Add(1, direction, kind)
		h.Observe(5, direction, kind)
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
