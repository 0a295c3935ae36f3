//go:build agents

package agents

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/wire"
)

// givenPath finds where a run is told that a file is.
var givenPath = regexp.MustCompile(`read at (/[^\s:"\\]+)`)

// readFile has the model read the file that it is told of, with the program's own tool.
func readFile(program string) step {
	find := func(r *request) string {
		if m := givenPath.FindStringSubmatch(r.body); m != nil {
			return m[1]
		}
		return "/nowhere"
	}
	switch program {
	case "claude":
		return step{tool: "Read", bare: true, input: func(r *request) map[string]any { return object{"file_path": find(r)} }}
	case "opencode":
		return step{tool: "read", bare: true, input: func(r *request) map[string]any { return object{"filePath": find(r)} }}
	}
	return step{tool: "exec_command", bare: true, input: func(r *request) map[string]any { return object{"cmd": "cat " + find(r)} }}
}

// A run reads, with the tools of its program, the file that was sent for its message.
func TestHeadlessReadsAFile(t *testing.T) {
	t.Parallel()
	const content = "c0ntent-of-the-file"
	for _, program := range []string{"claude", "codex", "opencode"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			desk, laptop := live.NewFriends(t)
			p := newPerson(t)
			p.model.on("read-what-came", readFile(program), step{echo: true, bare: true})
			s := p.serve(desk, laptop, program, "--dir", p.dir, "--tools", "read")
			id, sent := wire.NewMessageID(), make(chan error, 1)
			go func() {
				_, err := laptop.Client.SendFile(await.NewContext(t), client.FileSendParams{To: "desk", Agent: s.name, Name: "build.log", Size: uint64(len(content)), Ref: id}, strings.NewReader(content), nil)
				sent <- err
			}()
			var approval string
			await.Until(t, "the owner is asked", func() (asked bool) {
				approval, _, asked = strings.Cut(desk.MustOutput("approvals"), "\t")
				return asked
			})
			desk.MustOutput("approvals", "yes", approval)
			if err := await.Receive(t, "it is sent", sent); err != nil {
				t.Fatal(err)
			}
			if got := s.ask("read-what-came", "--id", fmt.Sprint(id)); !strings.Contains(got, content) {
				t.Errorf("%s", got)
			}
			s.Stop()
		})
	}
}
