package main

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
)

func TestReadLines(t *testing.T) {
	text := string(appendLine(appendLine(nil, 1, []byte(`{"a": 1}`)), 18446744073709551615, []byte("{}")))
	var got []string
	err := readLines(strings.NewReader(text), func(number uint64, line []byte) error {
		got = append(got, fmt.Sprintf("%d=%s", number, cutLinePayload(line)))
		return nil
	})
	if want := `[1={"a": 1} 18446744073709551615={}]`; err != nil || fmt.Sprint(got) != want {
		t.Errorf("readLines gave %v, %v, want %s", got, err, want)
	}
	for _, bad := range []string{"x {}\n", "1 {}", " \n", "\n"} {
		if err := readLines(strings.NewReader(bad), func(uint64, []byte) error { return nil }); err == nil {
			t.Errorf("readLines took %q", bad)
		}
	}
}

// Lines from many goroutines arrive whole, each once.
func TestLineWriter(t *testing.T) {
	const writers, each = 16, 200
	near, far := net.Pipe()
	w := &lineWriter{conn: near}
	payload := bytes.Repeat([]byte("x"), 300)
	var done sync.WaitGroup
	for i := range writers {
		done.Go(func() {
			var line []byte
			for j := range each {
				line = appendLine(line[:0], uint64(i*each+j), payload)
				if err := w.writeLine(line); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() { // ends when all lines are read
		done.Wait()
		near.Close()
	}()
	seen := map[uint64]bool{}
	err := readLines(far, func(number uint64, line []byte) error {
		if seen[number] || !bytes.Equal(cutLinePayload(line), payload) {
			return fmt.Errorf("line %d again or broken: %q", number, line)
		}
		seen[number] = true
		return nil
	})
	if err != nil || len(seen) != writers*each {
		t.Errorf("%d lines arrived, %v, want %d", len(seen), err, writers*each)
	}
}
