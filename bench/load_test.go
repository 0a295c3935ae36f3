package main

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/kinds"
)

func TestPayload(t *testing.T) {
	if got := string(makePayload(32)); got != `{"question":"xxxx","summary":""}` {
		t.Errorf("makePayload(32) = %s", got)
	}
	for _, size := range []int{29, 200, 61440} {
		payload := makePayload(size)
		if len(payload) != size {
			t.Errorf("makePayload(%d) has %d bytes", size, len(payload))
		}
		for _, name := range []string{kinds.KindQuery, kinds.KindResponse} {
			k, _ := kinds.FindKind(name)
			if err := k.CheckPayload(payload); err != nil {
				t.Errorf("makePayload(%d) as %s: %v", size, name, err)
			}
		}
	}
}

// What the parent orders is what the driver does, and what it reports arrives.
func TestDrive(t *testing.T) {
	var workers, calls atomic.Int64
	echo := func() func([]byte) ([]byte, error) {
		workers.Add(1)
		return func(p []byte) ([]byte, error) {
			calls.Add(1)
			return p, nil
		}
	}
	var orders, results strings.Builder
	for range 2 {
		if err := writeOrder(&orders, cell{size: 200, conc: 3}, time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if err := driveLoad(strings.NewReader(orders.String()), &results, echo); err != nil {
		t.Fatal(err)
	}
	if workers.Load() != 6 {
		t.Errorf("%d workers, want 3 for each of two orders", workers.Load())
	}
	sum := 0
	for line := range strings.Lines(results.String()) {
		r, err := parseResult(line)
		if err != nil {
			t.Fatal(err)
		}
		if r.elapsed < time.Millisecond || r.p50 > r.elapsed {
			t.Errorf("implausible result %+v", r)
		}
		sum += r.requests
	}
	if int64(sum) != calls.Load() {
		t.Errorf("results count %d requests, there were %d", sum, calls.Load())
	}
}

func TestLoadComparesEchoes(t *testing.T) {
	wrong := func() func([]byte) ([]byte, error) {
		return func([]byte) ([]byte, error) { return []byte("{}"), nil }
	}
	if _, err := (cell{200, 2}).runLoad(wrong, time.Second); err == nil {
		t.Error("load took a wrong echo for an answer")
	}
}

func TestResultToSample(t *testing.T) {
	r := result{requests: 200, elapsed: 2 * time.Second, p50: 1500 * time.Microsecond}
	if got, want := r.toSample(10*time.Millisecond), (sample{p50: 1.5, rate: 100, cpu: 50}); got != want {
		t.Errorf("toSample = %+v, want %+v", got, want)
	}
}

func TestFormatSize(t *testing.T) {
	for bytes, want := range map[int]string{200: "200 B", 1024: "1 KiB", 61440: "60 KiB", 1 << 20: "1 MiB"} {
		if got := formatSize(bytes); got != want {
			t.Errorf("formatSize(%d) = %q, want %q", bytes, got, want)
		}
	}
}
