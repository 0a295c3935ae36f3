package main

import "fmt"

// memoryGroup is daemons whose memory is looked at together.
type memoryGroup struct {
	homes []home
	pids  []int
}

// spawn adds a daemon that trusts nobody, with the config.yaml that configure writes.
func (g *memoryGroup) spawn(f *fleet, configure func(home) error) error {
	h, err := createHome(f.joinPath(fmt.Sprint("home", len(f.procs))))
	if err == nil {
		err = configure(h)
	}
	if err == nil {
		_, err = f.spawnDaemon(h.dir, "--no-mdns")
	}
	if err != nil {
		return err
	}
	g.homes, g.pids = append(g.homes, h), append(g.pids, f.lastProcess().cmd.Process.Pid)
	return nil
}

// measure looks at the memory of each, in megabytes.
func (g *memoryGroup) measure(memory func(pid int) (int64, error), what string) (figure, error) {
	f := figure{what: what, unit: "MB"}
	for _, pid := range g.pids {
		bytes, err := memory(pid)
		if err != nil {
			return f, err
		}
		f.values = append(f.values, toMegabytes(bytes))
	}
	return f, nil
}
