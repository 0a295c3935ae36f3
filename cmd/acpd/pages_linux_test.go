package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestReleaseProgram(t *testing.T) {
	before := residentFile(t)
	if err := releaseProgramPages(); err != nil {
		t.Fatal(err)
	}
	if after := residentFile(t); after >= before {
		t.Errorf("%d kB of files are resident, before it was %d", after, before)
	}
}

// residentFile returns RssFile of this process in kB (proc_pid_status(5)).
func residentFile(t *testing.T) int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
