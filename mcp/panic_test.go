package mcp

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/acpd/acpd/kinds"
)

// A tool that panics fails alone, and its stack is logged line by line, as Log wants it.
func TestAToolThatPanics(t *testing.T) {
	var lines []string
	s := &Server{Log: func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }}
	s.prepare()
	faulty := &tool{name: "acp_faulty", keeps: true, call: func(*Server, context.Context, *toolCall) (*result, error) { panic("a fault") }}
	_, err := s.runTool(t.Context(), &toolCall{tool: faulty})
	if kinds.AsError(err).Code != kinds.Internal {
		t.Errorf("err = %v", err)
	}
	if all := strings.Join(lines, "|"); !strings.HasPrefix(all, "acp_faulty: internal error: a fault|goroutine ") || strings.Contains(all, "\n") || !strings.Contains(all, "panic_test.go:") {
		t.Errorf("logged: %s", all)
	}
	s.end()
}
