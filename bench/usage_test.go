package main

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestCPUTime(t *testing.T) {
	before, err := cpuTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < 20*time.Millisecond; {
	}
	after, err := cpuTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after <= before {
		t.Errorf("cpuTime went from %v to %v over 20 ms of work", before, after)
	}
}

// The memory comes from the kernel: the heap may have some to spare.
func TestResidentMemory(t *testing.T) {
	const size = 64 << 20
	before, err := residentMemory(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	block, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(block)
	for i := 0; i < size; i += os.Getpagesize() {
		block[i] = 1
	}
	after, err := residentMemory(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if grown := after - before; grown < size*9/10 || grown > size*11/10 {
		t.Errorf("residentMemory grew by %d bytes with a block of %d", grown, size)
	}
}
