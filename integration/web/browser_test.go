//go:build web

package web

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// browser is a headless Chromium with a profile of its own. It speaks the Chrome DevTools Protocol
// over two pipes: messages in JSON, each with a byte 0 behind it.
type browser struct {
	t  *testing.T
	to *os.File

	mu      sync.Mutex
	last    int
	answers map[int]chan cdpMessage
	tabs    map[string]*tab // by session
}

type cdpMessage struct {
	ID        int            `json:"id,omitzero"`
	SessionID string         `json:"sessionId,omitzero"`
	Method    string         `json:"method,omitzero"`
	Params    jsontext.Value `json:"params,omitempty"`
	Result    jsontext.Value `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitzero"`
}

// findChromium returns the path of Chromium.
func findChromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("there is no chromium: apt-get install chromium")
	return ""
}

// startBrowser starts a browser, which ends with the test.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path := findChromium(t)
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe",
		"--hide-scrollbars", "--force-device-scale-factor=1", "--user-data-dir="+live.MakeTempDir(t), "about:blank")
	cmd.ExtraFiles = []*os.File{inRead, outWrite}
	cmd.Env = append(os.Environ(), "TZ=UTC", "LANG=C.UTF-8")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inRead.Close()
	outWrite.Close()
	b := &browser{t: t, to: inWrite, answers: make(map[int]chan cdpMessage), tabs: make(map[string]*tab)}
	read := make(chan struct{})
	go func() { defer close(read); b.readMessages(outRead) }()
	t.Cleanup(func() {
		b.send("", "Browser.close", nil)
		ended := make(chan struct{})
		go func() { defer close(ended); cmd.Wait() }()
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			cmd.Process.Kill()
			<-ended
		}
		inWrite.Close()
		outRead.Close()
		<-read
	})
	return b
}

func (b *browser) readMessages(from *os.File) {
	r := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m cdpMessage
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		answer, tab := b.answers[m.ID], b.tabs[m.SessionID]
		delete(b.answers, m.ID)
		b.mu.Unlock()
		switch {
		case answer != nil:
			answer <- m
		case tab != nil:
			tab.note(m)
		}
	}
}

// send sends a command and returns where its answer comes.
func (b *browser) send(session, method string, params any) <-chan cdpMessage {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	m := cdpMessage{ID: b.last, SessionID: session, Method: method}
	if params != nil {
		m.Params, _ = json.Marshal(params)
	}
	text, err := json.Marshal(m)
	if err != nil {
		b.t.Error(err)
	}
	answer := make(chan cdpMessage, 1)
	b.answers[m.ID] = answer
	b.to.Write(append(text, 0))
	return answer
}

// call sends a command and decodes its result, unless into is nil.
func (b *browser) call(session, method string, params, into any) error {
	select {
	case m := <-b.send(session, method, params):
		if m.Error != nil {
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		}
		if into != nil {
			return json.Unmarshal(m.Result, into)
		}
		return nil
	case <-time.After(await.Patience):
		return fmt.Errorf("%s: the browser does not answer", method)
	}
}

// tab is a page of a browser.
type tab struct {
	t       *testing.T
	b       *browser
	session string

	mu       sync.Mutex
	problems []string // exceptions, and what the console says of errors
	dialogs  []string // alerts and the like: scripts that ran
}

type object = map[string]any

func (b *browser) openTab(t *testing.T) *tab {
	t.Helper()
	p := &tab{t: t, b: b}
	var target struct {
		ID string `json:"targetId"`
	}
	p.call("Target.createTarget", object{"url": "about:blank"}, &target)
	var attached struct {
		ID string `json:"sessionId"`
	}
	p.call("Target.attachToTarget", object{"targetId": target.ID, "flatten": true}, &attached)
	p.session = attached.ID
	b.mu.Lock()
	b.tabs[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		p.call(domain+".enable", nil, nil)
	}
	return p
}

func (p *tab) call(method string, params, into any) {
	p.t.Helper()
	if err := p.b.call(p.session, method, params, into); err != nil {
		p.t.Fatal(err)
	}
}

// note keeps what the browser tells of a page that should not be.
func (p *tab) note(m cdpMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m.Method {
	case "Runtime.exceptionThrown":
		p.problems = append(p.problems, string(m.Params))
	case "Log.entryAdded":
		var e struct {
			Entry struct {
				Level, Text, URL string
			} `json:"entry"`
		}
		if json.Unmarshal(m.Params, &e, json.MatchCaseInsensitiveNames(true)) == nil && e.Entry.Level == "error" {
			p.problems = append(p.problems, e.Entry.Text+" "+e.Entry.URL)
		}
	case "Page.javascriptDialogOpening":
		p.dialogs = append(p.dialogs, string(m.Params))
		p.b.send(p.session, "Page.handleJavaScriptDialog", object{"accept": true})
	}
}

func (p *tab) takeProblems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := append(p.problems, p.dialogs...)
	p.problems, p.dialogs = nil, nil
	return all
}

// checkProblems fails the test if the browser has told of something that should not be, since the last call.
func (p *tab) checkProblems(t *testing.T) {
	t.Helper()
	for _, problem := range p.takeProblems() {
		t.Error(problem)
	}
}

// look sets the size of the window, and whether the system is dark.
func (p *tab) look(width, height int, dark bool) {
	p.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	p.call("Emulation.setDeviceMetricsOverride", object{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	p.call("Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

func (p *tab) open(url string) {
	p.t.Helper()
	var said struct {
		ErrorText string `json:"errorText"`
	}
	p.call("Page.navigate", object{"url": url}, &said)
	if said.ErrorText != "" && said.ErrorText != "net::ERR_ABORTED" {
		p.t.Fatal(url, said.ErrorText)
	}
}

// eval returns what an expression is, after it has settled if it is a promise.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	v, err := tryEval[T](p, expression)
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// tryEval is eval for a page that may be about to be replaced.
func tryEval[T any](p *tab, expression string) (v T, err error) {
	var said struct {
		Result struct {
			Value jsontext.Value `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string         `json:"text"`
			Exception jsontext.Value `json:"exception"`
		} `json:"exceptionDetails"`
	}
	err = p.b.call(p.session, "Runtime.evaluate", object{"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true}, &said)
	switch {
	case err != nil:
	case said.Exception != nil:
		err = fmt.Errorf("%s %s", said.Exception.Text, said.Exception.Exception)
	case len(said.Result.Value) > 0:
		err = json.Unmarshal(said.Result.Value, &v)
	}
	return v, err
}

// until waits until an expression is true.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	await.Until(p.t, what, func() bool {
		holds, err := tryEval[bool](p, "!!("+expression+")")
		return err == nil && holds
	})
}

// picture returns what a page looks like as PNG; whole: also what is below the window.
func (p *tab) picture(whole bool) []byte {
	p.t.Helper()
	var shot struct {
		Data string `json:"data"`
	}
	p.call("Page.captureScreenshot", object{"format": "png", "captureBeyondViewport": whole}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		p.t.Fatal(err)
	}
	return png
}

// press presses a key.
func (p *tab) press(key string, code int) {
	p.t.Helper()
	text := ""
	if key == "Enter" {
		text = "\r"
	}
	down := object{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code}
	if text != "" {
		down["text"] = text
	}
	p.call("Input.dispatchKeyEvent", down, nil)
	p.call("Input.dispatchKeyEvent", object{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code}, nil)
}
