package harness

import (
	"context"
	"errors"
	"strings"

	"github.com/acpd/acpd/internal/ownwords"
)

// codexMethods are the methods of the app-server that waking needs.
var codexMethods = []string{
	"thread/loaded/list", "thread/read", "thread/resume", "thread/inject_items", "turn/start", "turn/interrupt", "mcpServer/tool/call",
}

// codexFields are the fields of turn/start that waking needs, and that an app-server which does not know
// them would ignore.
var codexFields = []string{"clientUserMessageId", "additionalContext"}

// noThread is an id that no thread has.
const noThread = "00000000-0000-7000-8000-000000000000"

// probeCodex returns an error of [lacks] if the app-server lacks a method or a field that waking needs.
// None of its calls can succeed: the app-server refuses them before it does anything.
func probeCodex(ctx context.Context, conn *codexConn, version string) error {
	answer, err := conn.readRefusal(ctx, "acpd/probe", struct{}{})
	if err != nil {
		return err
	}
	_, names, listed := strings.Cut(answer, "expected one of")
	for _, method := range codexMethods {
		if listed && !strings.Contains(names, "`"+method+"`") {
			return lacks(codexName, version, method)
		}
	}
	for _, field := range codexFields {
		// None of the fields is a number.
		answer, err := conn.readRefusal(ctx, "turn/start", map[string]any{"threadId": noThread, "input": []any{}, field: 5})
		if err != nil {
			return err
		}
		if strings.Contains(answer, "thread not found") {
			return lacks(codexName, version, field+" of turn/start")
		}
	}
	return nil
}

// readRefusal makes a call that the app-server has to refuse, and returns the text with which it does.
func (c *codexConn) readRefusal(ctx context.Context, method string, params any) (string, error) {
	err := c.call(ctx, method, params, nil)
	refusal, refused := errors.AsType[*codexError](err)
	switch {
	case refused:
		return refusal.Message, nil
	case err == nil:
		return "", ownwords.Errorf("%s: it does not refuse what makes no sense", method)
	}
	return "", err
}
