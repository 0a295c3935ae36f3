package harness

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/ownwords"
)

const (
	// opencodeTime bounds one request to OpenCode.
	opencodeTime = 5 * time.Second
	// maxOpenCodeBody bounds an answer of OpenCode, in bytes.
	maxOpenCodeBody = 4 << 20
	// maxParentsOfSession bounds how far up the tree of sessions is looked.
	maxParentsOfSession = 8
)

// opencode is a session of an OpenCode program that listens on a port. The program starts one
// process for all sessions in a directory, so which one is ours is learned when it calls.
type opencode struct {
	*lifetime
	version   string
	dir       string // the working directory of this process, which is that of the sessions
	user      string
	password  string
	processes *processes
	parent    int // the process that listens
	port      int
	http      *http.Client

	mu      sync.Mutex // guards what follows
	asking  bool       // which session has called
	session string     // which called latest; empty before
}

// findOpenCode returns the session of OpenCode that has started this process.
func findOpenCode(ctx context.Context, env *Environment, ps *processes) (Session, error) {
	if err := checkVersion(opencodeName, env.Version); err != nil {
		return nil, err
	}
	o := &opencode{
		lifetime: newLifetime(), version: env.Version, dir: env.Dir, processes: ps,
		user: cmp.Or(env.Getenv("OPENCODE_SERVER_USERNAME"), "opencode"),
		http: &http.Client{
			Transport:     &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if err := o.findPort(ctx, env.Getenv("OPENCODE_SERVER_PASSWORD")); err != nil {
		o.Close()
		return nil, o.fail(ErrUnsupported, err)
	}
	return o, nil
}

// findPort finds the port on which the process listens that has started this one. It asks no
// other parent: a program that listens there may be anything, and would get the password.
func (o *opencode) findPort(ctx context.Context, password string) error {
	parents := o.processes.listParents()
	if len(parents) == 0 {
		return ownwords.New("what has started this process is not known")
	}
	o.parent = parents[0].pid
	ports, err := o.processes.portsOf(o.parent)
	for _, o.port = range ports {
		if err = o.logIn(ctx, password); err == nil {
			return nil
		}
	}
	return cmp.Or(err, ownwords.New("it listens on no port: start it with --port and OPENCODE_SERVER_PASSWORD set"))
}

// logIn returns nil if OpenCode answers on the port, and only to whoever has the password. If it
// answers everybody, any user of this machine and any headless run can begin turns of the session.
func (o *opencode) logIn(ctx context.Context, password string) error {
	o.password = ""
	var busy map[string]jsontext.Value
	err := o.get(ctx, "/session/status", nil, &busy)
	switch refused, _ := errors.AsType[opencodeError](err); {
	case err == nil:
		return ownwords.New("its port is open to everybody on this machine: start it with OPENCODE_SERVER_PASSWORD set")
	case refused.status != http.StatusUnauthorized:
		return err
	}
	o.password = password
	if err := o.get(ctx, "/session/status", nil, &busy); err != nil {
		return err
	}
	return o.probe(ctx)
}

// Harness returns the name and version of OpenCode.
func (o *opencode) Harness() (name, version string) { return opencodeName, o.version }

// NoteCall learns which session calls.
func (o *opencode) NoteCall(map[string]any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.asking {
		return
	}
	o.asking = o.start(func() {
		session, err := o.findCaller(o.ctx)
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.asking = false; err == nil && session != "" {
			o.session = session
		}
	})
}

// Close ends what is under way.
func (o *opencode) Close() error {
	o.end()
	o.http.CloseIdleConnections()
	return nil
}

// Post gives the session the pointer, as if its user had typed it. In a busy session it is
// the next turn.
func (o *opencode) Post(ctx context.Context, p Post) (Posted, error) {
	return o.post(ctx, o, &p, func(ctx context.Context) (Posted, error) {
		return Posted{}, o.givePointer(ctx, &p)
	})
}

// givePointer gives the pointer to the session.
func (o *opencode) givePointer(ctx context.Context, p *Post) error {
	session, err := o.findSession(ctx)
	if err != nil {
		return err
	}
	if !p.Unattended {
		if saw := o.explainUnattended(ctx, session); saw != "" {
			return o.fail(ErrUnattended, ownwords.New(saw))
		}
	}
	if err := o.prompt(ctx, session, p.Pointer); err != nil {
		return o.explain(err)
	}
	return nil
}

// opencodeSession is a session as OpenCode lists it.
type opencodeSession struct {
	ID     string `json:"id"`
	Parent string `json:"parentID"`
	Dir    string `json:"directory"`
	Time   struct {
		Updated float64 `json:"updated"` // in milliseconds
	} `json:"time"`
}

// listSessions returns the sessions in this directory that no other session has begun.
func (o *opencode) listSessions(ctx context.Context) (all []opencodeSession, err error) {
	err = o.get(ctx, "/session", url.Values{"directory": {o.dir}}, &all)
	return slices.DeleteFunc(all, func(s opencodeSession) bool { return s.Parent != "" || s.Dir != o.dir }), err
}

// findSession returns the session that has called latest, before the first call the only one
// in this directory.
func (o *opencode) findSession(ctx context.Context) (string, error) {
	o.mu.Lock()
	session := o.session
	o.mu.Unlock()
	if session != "" {
		return session, nil
	}
	all, err := o.listSessions(ctx)
	if err != nil {
		return "", o.explain(err)
	}
	if len(all) != 1 {
		return "", o.fail(ErrNoThread, ownwords.Errorf("it has %d sessions in this directory", len(all)))
	}
	return all[0].ID, nil
}

// findCaller returns the session that is busy, or the one that began it, if it is the only one.
// If the turn of the call has ended already, it is the session that changed last.
func (o *opencode) findCaller(ctx context.Context) (string, error) {
	var busy map[string]jsontext.Value
	if err := o.get(ctx, "/session/status", url.Values{"directory": {o.dir}}, &busy); err != nil {
		return "", err
	}
	caller := ""
	for id := range busy {
		for range maxParentsOfSession {
			var s opencodeSession
			if err := o.get(ctx, "/session/"+url.PathEscape(id), nil, &s); err != nil {
				return "", err
			}
			if s.Parent == "" {
				break
			}
			id = s.Parent
		}
		if caller != "" && caller != id {
			return "", ownwords.New("several sessions are busy")
		}
		caller = id
	}
	if caller != "" {
		return caller, nil
	}
	all, err := o.listSessions(ctx)
	if err != nil || len(all) == 0 {
		return "", err
	}
	latest := slices.MaxFunc(all, func(a, b opencodeSession) int { return cmp.Compare(a.Time.Updated, b.Time.Updated) })
	return latest.ID, nil
}

// opencodeError is an answer other than a success.
type opencodeError struct {
	status int
	name   string // as its JSON says; empty if it is no JSON
}

func (e opencodeError) Error() string {
	if e.status/100 == 2 {
		return "it answers with a page"
	}
	return fmt.Sprintf("it answers %d", e.status)
}

func (e opencodeError) OwnWords() string { return e.Error() }

func (o *opencode) get(ctx context.Context, path string, query url.Values, result any) error {
	return o.do(ctx, http.MethodGet, path, query, nil, result)
}

// do makes one request. The process that has started this one must still listen on the port.
func (o *opencode) do(ctx context.Context, method, path string, query url.Values, body, result any) error {
	if ports, err := o.processes.portsOf(o.parent); err != nil || !slices.Contains(ports, o.port) {
		return errors.Join(err, ownwords.Errorf("it does not listen on port %d any more", o.port))
	}
	ctx, cancel := context.WithTimeout(ctx, opencodeTime)
	defer cancel()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	to := "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(o.port)) + path + "?" + query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if o.password != "" {
		request.SetBasicAuth(o.user, o.password)
	}
	response, err := o.http.Do(request)
	if err != nil {
		return explainTalk(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxOpenCodeBody+1))
	switch {
	case err != nil:
		return explainTalk(err)
	case len(answer) > maxOpenCodeBody:
		return ownwords.Errorf("its answer to %s has over %d MiB", path, maxOpenCodeBody>>20)
	}
	if isPage := len(answer) > 0 && !jsontext.Value(answer).IsValid(jsontext.AllowInvalidUTF8(true)); isPage || response.StatusCode/100 != 2 {
		var said struct {
			Name string `json:"name"`
		}
		json.Unmarshal(answer, &said)
		return opencodeError{response.StatusCode, said.Name}
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(answer, result, jsontext.AllowInvalidUTF8(true)); err != nil {
		return explainTalk(err)
	}
	return nil
}

// explain makes an error of a failed request.
func (o *opencode) explain(err error) error {
	refused, ok := errors.AsType[opencodeError](err)
	switch {
	case !ok:
		return o.fail(ErrGone, err)
	case refused.status == http.StatusNotFound:
		return o.fail(ErrNoThread, err)
	}
	return o.fail(ErrRefused, err)
}

func (o *opencode) fail(err, saw error) error {
	return &Error{Harness: opencodeName, Version: o.version, Err: err, Saw: ownwords.Of(saw)}
}
