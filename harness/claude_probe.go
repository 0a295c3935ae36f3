package harness

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
)

const (
	// sessionFileTime is how long a session's file may take to have what waking needs: Claude Code
	// writes it while it starts its children.
	sessionFileTime = 2 * time.Second
	// sessionFilePause is between two looks at it.
	sessionFilePause = 50 * time.Millisecond
)

// probeClaude returns an error that names what the session of process pid lacks, so that it cannot
// be woken, and nil if it lacks nothing. It reads a file that Claude Code writes about that session, again
// until ctx ends, and sends nothing: whatever is sent to the session's socket leaves a trace there.
func probeClaude(ctx context.Context, getenv func(string) string, pid int, socket string) error {
	dir := getenv("CLAUDE_CONFIG_DIR")
	if dir == "" {
		dir = filepath.Join(getenv("HOME"), ".claude")
	}
	path := filepath.Join(dir, "sessions", strconv.Itoa(pid)+".json")
	ctx, cancel := context.WithTimeout(ctx, sessionFileTime)
	defer cancel()
	for {
		if err := checkSessionFile(path, socket); err == nil || pace.Sleep(ctx, sessionFilePause) != nil {
			return err
		}
	}
}

// checkSessionFile returns an error that names the first thing that a session's file lacks.
func checkSessionFile(path, socket string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return ownwords.Errorf("it has no session file: %w", err)
	case !info.Mode().IsRegular() || info.Size() > maxClaudeLine:
		return ownwords.Errorf("its session file %s is not a file of at most %d MiB", path, maxClaudeLine>>20)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return ownwords.Errorf("its session file cannot be read: %w", err)
	}
	var fields map[string]jsontext.Value
	if json.Unmarshal(text, &fields, jsontext.AllowInvalidUTF8(true)) != nil {
		return ownwords.Errorf("its session file %s is not a JSON object", path)
	}
	var features []string
	json.Unmarshal(fields["peerFeatures"], &features)
	switch {
	case string(fields["peerProtocol"]) != "1":
		return ownwords.New("its session file has no peerProtocol 1")
	case !slices.Contains(features, "notify_idle"):
		return ownwords.New("its session file has no peerFeatures notify_idle")
	case readAnyText(fields["messagingSocketPath"]) != socket:
		return ownwords.New("its session file has no messagingSocketPath that is the socket it gave its child")
	}
	return nil
}
