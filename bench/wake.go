package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

const (
	wakes        = 50               // as many as one peer may cause in an hour
	wakeSessions = 8                // which take turns: a peer may wake one of them 10 times in an hour
	wakeRest     = 12 * time.Second // until a daemon has given back what its start took
)

// measureWake measures the time from a sender's call to the line that wakes a session. This
// process is the agent program, a Claude Code whose sessions are always idle, and its models.
func measureWake(f *fleet) ([]figure, error) {
	near, far, err := f.spawnPair()
	if err != nil {
		return nil, err
	}
	daemon := f.procs[0].cmd.Process.Pid // the far one
	owner, sender := client.Client{Socket: far.socketPath()}, client.Client{Socket: near.socketPath()}
	defer owner.Close()
	defer sender.Close()
	if _, err := owner.AllowWake(f.ctx, client.WakeAllowParams{Peer: "near"}); err != nil {
		return nil, err
	}
	alone := figure{what: "memory of acpd without sessions", unit: "MB"}
	attached := figure{what: fmt.Sprintf("memory of acpd with %d sessions", wakeSessions), unit: "MB"}
	woken := figure{what: "memory of acpctl mcp with a session that was woken", unit: "MB", target: 25}
	if err := pace.Sleep(f.ctx, wakeRest); err != nil {
		return nil, err
	}
	if err := alone.addMemory(daemon); err != nil {
		return nil, err
	}
	inbox, err := listenForWakes(f.joinPath("inbox"))
	if err != nil {
		return nil, err
	}
	defer inbox.Close()
	var sessions []*tools
	defer func() {
		for _, t := range sessions {
			t.stop()
		}
	}()
	for i := range wakeSessions {
		t, err := startTools(f.ctx, f, far, inbox.program, "--name", fmt.Sprint("s", i))
		if err != nil {
			return nil, err
		}
		sessions = append(sessions, t)
		if err := t.call("acp_inbox", "{}", "Nothing waits."); err != nil { // waits until the session is attached
			return nil, err
		}
	}
	if err := pace.Sleep(f.ctx, wakeRest); err != nil {
		return nil, err
	}
	if err := attached.addMemory(daemon); err != nil {
		return nil, err
	}
	wake := figure{what: "notify to the line that wakes a session", unit: "ms", target: 30}
	for i := range wakes {
		took, err := inbox.wake(f.ctx, &sender, sessions[i%wakeSessions], fmt.Sprint("far/s", i%wakeSessions))
		if err != nil {
			return nil, fmt.Errorf("wake %d: %w", i+1, err)
		}
		wake.values = append(wake.values, toMillis(took))
	}
	for _, t := range sessions {
		if err := woken.addMemory(t.cmd.Process.Pid); err != nil {
			return nil, err
		}
	}
	return []figure{wake, alone, attached, woken}, nil
}

// addMemory adds what a process has in memory, in megabytes.
func (f *figure) addMemory(pid int) error {
	bytes, err := residentMemory(pid)
	if err == nil {
		f.values = append(f.values, toMegabytes(bytes))
	}
	return err
}

// claudeInbox is the inbox socket of a Claude Code, which this process plays.
type claudeInbox struct {
	net.Listener
	program agentProgram
	woken   chan time.Time // when a line came that begins a turn
}

// listenForWakes makes the socket in a directory of its own.
func listenForWakes(dir string) (*claudeInbox, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, fmt.Sprintf("%d.sock", os.Getpid())) // acpctl takes no other process's
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	c := &claudeInbox{
		Listener: listener,
		program:  agentProgram{name: "claude-code", version: "2.1.330", env: []string{"CLAUDE_CODE_MESSAGING_SOCKET=" + path}},
		woken:    make(chan time.Time, 1),
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go c.serveConn(conn)
		}
	}()
	return c, nil
}

// serveConn reads the lines of one connection: it answers in which mode the session is, and notes
// when it is woken.
func (c *claudeInbox) serveConn(conn net.Conn) {
	defer conn.Close()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		at := time.Now()
		var line struct {
			Type   string `json:"type"`
			Action string `json:"action"`
			ID     string `json:"msg_id"`
			From   string `json:"from"`
		}
		err := json.Unmarshal(lines.Bytes(), &line)
		switch {
		case err == nil && line.Action == "notify_when_idle":
			err = answerIdle(line.From, line.ID)
		case err == nil && line.Type == "user":
			c.woken <- at
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench: inbox socket:", err)
		}
	}
}

// answerIdle says that the session is idle and its user asked for permissions.
func answerIdle(to, id string) error {
	conn, err := net.Dial("unix", strings.TrimPrefix(to, "uds:"))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = fmt.Fprintf(conn, `{"type":"control","action":"peer_idle_notice","orig_msg_id":%q,"state":"idle","from_mode":"prompting","msgV":1,"msg_id":"n"}`+"\n", id)
	return err
}

// wake sends a notification to a session and returns how long the line took that wakes it. The
// session's model then takes the message.
func (c *claudeInbox) wake(ctx context.Context, sender *client.Client, session *tools, to string) (took time.Duration, err error) {
	id := wire.NewMessageID()
	type receipt struct {
		*client.Receipt
		err error
	}
	sent := make(chan receipt, 1)
	began := time.Now()
	go func() {
		r, err := sender.Notify(ctx, client.NotifyParams{Head: client.Head{ID: id}, To: client.To(to), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "build.done"})})
		sent <- receipt{r, err}
	}()
	select {
	case at := <-c.woken:
		took = at.Sub(began)
	case <-time.After(patience):
		return 0, errors.New("the session is not woken")
	}
	if err := session.call("acp_inbox", "{}", id.String()); err != nil {
		return 0, err
	}
	if err := session.call("acp_inbox", `{"ack":["`+id.String()+`"]}`, "1 of 1 removed"); err != nil {
		return 0, err
	}
	r := <-sent
	if r.err == nil && r.State != client.Handed {
		r.err = fmt.Errorf("the receipt is %s", r.State)
	}
	return took, r.err
}
