package harness

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// What an app-server lacks is named. A probe changes nothing: no call of it names a thread that is there.
// holds: security.md#agents-on-this-machine
func TestCodexProbe(t *testing.T) {
	without := func(method string) func(*fakeCodex) {
		return func(f *fakeCodex) {
			f.methods = "`" + strings.Join(slices.DeleteFunc(slices.Clone(codexMethods), func(m string) bool { return m == method }), "`, `") + "`"
		}
	}
	rows := map[string]func(*fakeCodex){
		"": func(*fakeCodex) {},
		"acpd/probe: it does not refuse what makes no sense": func(f *fakeCodex) { f.obliging = true },
	}
	for _, method := range codexMethods {
		rows["codex 0.180.0 cannot be woken: it has no "+method] = without(method)
	}
	for _, field := range codexFields {
		rows["codex 0.180.0 cannot be woken: it has no "+field+" of turn/start"] = func(f *fakeCodex) { f.ignored[field] = true }
	}
	for want, change := range rows {
		f := newFakeCodex(t)
		f.version = "0.180.0"
		change(f)
		_, err := f.find()
		if want == "" && err != nil || want != "" && (!errors.Is(err, ErrUnsupported) || !strings.HasSuffix(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
		for _, c := range f.calls {
			if c.thread() != "" && c.thread() != noThread {
				t.Errorf("%s of %s", c.Method, c.thread())
			}
		}
	}
}

// An app-server that names no methods may have them: the wake will tell.
func TestCodexThatNamesNoMethods(t *testing.T) {
	f := newFakeCodex(t)
	f.refuse["acpd/probe"] = `{"code":-32601,"message":"method not found"}`
	if _, err := f.find(); err != nil {
		t.Error(err)
	}
}

// The verdict is kept: the app-server is probed once.
func TestCodexIsProbedOnce(t *testing.T) {
	f := newFakeCodex(t)
	s := f.mustFind()
	for range 2 {
		if err := f.post(s); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(f.list("acpd/probe")); n != 1 {
		t.Errorf("%d probes", n)
	}
}
