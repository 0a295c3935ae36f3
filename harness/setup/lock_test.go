package setup

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Setups that run at the same time write one after the other: each file has what all of them
// write, and undoing gives back what there was.
func TestSetupsAtOnce(t *testing.T) {
	o := newOptions(t.TempDir())
	config := filepath.Join(o.Home, ".config", "opencode", "opencode.json")
	claudeConfig := filepath.Join(o.Home, ".claude.json")
	writeFile(t, config, "{}\n", 0o600)
	writeFile(t, claudeConfig, "{}\n", 0o600)
	writeFile(t, filepath.Join(o.Home, ".local", "keep"), "", 0o600) // so that the folder stays
	before := snapshot(t, o.Home)
	for range 5 {
		var running sync.WaitGroup
		for range 2 {
			for _, program := range ListPrograms() {
				running.Go(func() {
					if err := tryAll(program, o); err != nil {
						t.Errorf("%s: %v", program, err)
					}
				})
			}
		}
		running.Wait()
		for _, path := range []string{config, claudeConfig} {
			if text, err := os.ReadFile(path); err != nil || !bytes.Contains(text, []byte(fakeCommand)) {
				t.Errorf("%s: %v\n%s", path, err, text)
			}
		}
		for range 2 {
			for _, program := range ListPrograms() {
				running.Go(func() {
					if err := undoEverything(program, o); err != nil {
						t.Errorf("undo %s: %v", program, err)
					}
				})
			}
		}
		running.Wait()
		if after := snapshot(t, o.Home); after != before {
			t.Fatalf("undone\n%s\nbefore\n%s", after, before)
		}
	}
}

// The folders of the lock may go while it is taken, as another setup that has written nothing removes
// them: then it is taken again.
func TestFoldersOfTheLockThatAreRemoved(t *testing.T) {
	o := newOptions(t.TempDir())
	taken := make(chan struct{})
	var removing sync.WaitGroup
	removing.Go(func() {
		for {
			select {
			case <-taken:
				return
			default:
				removeEmptyFolders([]string{o.State, filepath.Dir(o.State)})
			}
		}
	})
	for range 2 {
		unlock, err := o.lockState(time.Minute)
		if err != nil {
			t.Error(err)
			break
		}
		unlock()
	}
	close(taken)
	removing.Wait()
}

// A setup waits until another has written, and says so if that takes too long.
func TestAnotherSetupIsWriting(t *testing.T) {
	o := newOptions(t.TempDir())
	unlock, err := o.lockState(statePatience)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.lockState(0); err == nil || !strings.Contains(err.Error(), "another acpctl setup is writing") {
		t.Errorf("setup: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- tryAll("codex", o) }()
	select {
	case err := <-done:
		t.Errorf("does not wait: %v", err)
	case <-time.After(2 * lockAgain): // what must not happen has this long to happen
	}
	unlock()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// What a crash has left under a temporary name goes when setup is undone.
func TestUndoRemovesWhatACrashHasLeft(t *testing.T) {
	o := newOptions(t.TempDir())
	path := filepath.Join(o.Home, ".claude.json")
	writeFile(t, path, "{}", 0o600)
	setUp(t, "claude", o, true)
	writeFile(t, path+tempMark, "{", 0o600)
	if err := undoEverything("claude", o); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path + tempMark); err == nil {
		t.Error("it is still there")
	}
}
