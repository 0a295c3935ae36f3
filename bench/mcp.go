package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

const (
	mcpQueries = 500
	mcpStarts  = 20
)

// mcpVariant is no way for a request to travel that takes turns with others: it is the tools of
// acpctl mcp beside a program that uses package client.
var mcpVariant = variant{name: "mcp", programs: []string{"acpd", "acpctl"}}

// benchMCP measures what the tools of acpctl mcp cost beside the Go client, the process, and how
// soon it wakes a session.
func benchMCP(ctx context.Context, to *report, log io.Writer) error {
	return measureParts(ctx, mcpVariant, to, log, part{"acp_query and the client's query", measureToolQuery}, part{"start", measureToolStart}, part{"wake", measureWake})
}

// measureToolQuery asks by the tool and by the Go client in turn. An agent of this process
// answers both.
func measureToolQuery(f *fleet) ([]figure, error) {
	near, far, err := f.spawnPair()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	answerer, asker := client.Client{Socket: far.socketPath()}, client.Client{Socket: near.socketPath()}
	defer asker.Close()
	attached, ended := make(chan struct{}), make(chan error, 1)
	go func() { // what is deferred below waits for it
		ended <- answerer.Attach(ctx, client.AttachParams{Name: "echo"}, client.Handler{
			Query: func(context.Context, *client.Inbound) (any, error) {
				return &kinds.Response{Summary: strings.Repeat("x", 200)}, nil
			},
			OnAttached: func() { close(attached) },
		})
	}()
	defer func() { cancel(); <-ended }()
	select {
	case <-attached:
	case <-time.After(patience):
		return nil, errors.New("the agent is not attached")
	}
	tools, err := startTools(ctx, f, near, plainProgram)
	if err != nil {
		return nil, err
	}
	defer tools.stop()
	direct := figure{what: "the Go client's query", unit: "ms"}
	tool := figure{what: "acp_query", unit: "ms"}
	more := figure{what: "acp_query over the client's query", unit: "ms", target: 1}
	question := kinds.EncodePayload(&kinds.Query{Question: strings.Repeat("?", 200)})
	for i := range mcpQueries + mcpQueries/5 {
		began := time.Now()
		if _, err := asker.Query(ctx, client.QueryParams{To: "far", Payload: question}); err != nil {
			return nil, err
		}
		between := time.Now()
		if err := tools.call("acp_query", `{"to":"far","question":"`+strings.Repeat("?", 200)+`"}`, `"state":"answered"`); err != nil {
			return nil, err
		}
		if i < mcpQueries/5 {
			continue // to warm up
		}
		byClient, byTool := toMillis(between.Sub(began)), toMillis(time.Since(between))
		direct.values, tool.values, more.values = append(direct.values, byClient), append(tool.values, byTool), append(more.values, byTool-byClient)
	}
	bytes, err := residentMemory(tools.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	memory := figure{what: fmt.Sprintf("memory of acpctl mcp after %d calls", mcpQueries+mcpQueries/5), unit: "MB", target: 25, values: []float64{toMegabytes(bytes)}}
	return []figure{direct, tool, more, memory}, nil
}

// measureToolStart measures how long a program waits for the answer to initialize.
func measureToolStart(f *fleet) ([]figure, error) {
	near, _, err := f.spawnPair()
	if err != nil {
		return nil, err
	}
	start := figure{what: "start of acpctl mcp to the answer to initialize", unit: "ms", target: 60}
	for range mcpStarts {
		began := time.Now()
		tools, err := startTools(f.ctx, f, near, plainProgram)
		if err != nil {
			return nil, err
		}
		start.values = append(start.values, toMillis(time.Since(began)))
		if err := tools.stop(); err != nil {
			return nil, err
		}
	}
	return []figure{start}, nil
}

// tools is acpctl mcp with a session that is attached.
type tools struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	id  int
}

// agentProgram is what acpctl mcp knows of the program that starts it.
type agentProgram struct {
	name, version string
	env           []string
}

// plainProgram is one that cannot be woken.
var plainProgram = agentProgram{name: "bench", version: "1"}

// startTools starts acpctl mcp on a home and begins a session.
func startTools(ctx context.Context, f *fleet, h home, p agentProgram, flags ...string) (*tools, error) {
	t := &tools{cmd: exec.CommandContext(ctx, filepath.Join(f.bin, "acpctl"), append([]string{"mcp", "--home", h.dir, "--attach"}, flags...)...)}
	t.cmd.Env = append(newQuietEnv(), p.env...)
	t.cmd.Stderr = os.Stderr
	var err error
	if t.in, err = t.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.out = bufio.NewReaderSize(out, 64<<10)
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err = t.ask("initialize", fmt.Sprintf(`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":%q,"version":%q}}`, p.name, p.version)); err != nil {
		return nil, err
	}
	_, err = io.WriteString(t.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	return t, err
}

// ask sends a request and returns the line that answers it.
func (t *tools) ask(method, params string) (string, error) {
	t.id++
	if _, err := fmt.Fprintf(t.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", t.id, method, params); err != nil {
		return "", err
	}
	return t.out.ReadString('\n')
}

// call calls a tool. It is an error if the answer does not contain a text.
func (t *tools) call(tool, arguments, want string) error {
	answer, err := t.ask("tools/call", `{"name":"`+tool+`","arguments":`+arguments+`}`)
	if err == nil && !strings.Contains(answer, want) {
		err = errors.New(answer)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	return nil
}

// stop ends the session and waits for the process.
func (t *tools) stop() error {
	t.in.Close()
	return t.cmd.Wait()
}
