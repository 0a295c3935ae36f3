package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/operate"
	"github.com/acpd/acpd/internal/app/service"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/internal/statedir"
	"github.com/acpd/acpd/kinds"
)

// How long up waits for a daemon to answer.
const (
	startTime = 5 * time.Minute  // longer than a start takes, also where it brings the state of an older version up to date
	busyTime  = 10 * time.Second // of one that runs already
)

// startDaemon makes sure that the daemon runs.
func (u *run) startDaemon(ctx context.Context) (err error) {
	dir, err := u.FindStateDir()
	if err != nil {
		return fmt.Errorf("up: %w", err)
	}
	u.me, err = u.Daemon.Whoami(ctx)
	switch e, _ := errors.AsType[*kinds.Error](err); {
	case err == nil && u.name != "" && u.name != u.me.Name:
		u.Tell("acpd runs, and this machine is %s: name in %s changes that.", client.Line(u.me.Name), shellpath.Quote(filepath.Join(dir, statedir.ConfigName)))
		return nil
	case err == nil:
		u.Tell("acpd runs, and this machine is %s.", client.Line(u.me.Name))
		return nil
	case e == nil || e.Code != kinds.DaemonUnavailable:
		return err
	}
	if statedir.FindHolder(dir) != nil { // it starts, or something keeps this program from it
		u.Tell("acpd runs, and does not answer yet.")
		return u.awaitDaemon(ctx, busyTime, func() error { return nil })
	}
	s := service.Service{Name: u.name}
	if m, err := operate.OpenManager(u.Frame, &s); err == nil && m.CheckRunning(ctx) == nil {
		started, err := u.startService(ctx, m, s)
		if err != nil {
			return fmt.Errorf("up: %w", err)
		}
		if started {
			return u.awaitDaemon(ctx, startTime, watchService(ctx, m, s))
		}
	}
	return u.startAlone(ctx, dir)
}

// startService has the manager run the daemon. It reports whether it does: the person may say no.
func (u *run) startService(ctx context.Context, m service.Manager, s service.Service) (bool, error) {
	st, err := m.Inspect(ctx, s)
	if err != nil {
		return false, err
	}
	if st.Installed && st.Enabled != "disabled" && u.name == "" {
		return true, m.Start(ctx, s) // as it is
	}
	if yes, err := u.confirm(ctx, "Shall acpd be your service, so that it starts whenever you log in?", "acpd is no service: acpctl service install makes it one"); err != nil || !yes {
		return false, err
	}
	lingerer, ok := m.(service.Lingerer)
	linger := false
	if ok {
		if lingers, known := lingerer.IsLingering(ctx); known && !lingers {
			if linger, err = u.confirm(ctx, "Shall it run while you are not logged in, too? All your services then do.", "acpd ends with your last session: acpctl service install --linger changes that"); err != nil {
				return false, err
			}
		}
	}
	if s.Program, err = operate.FindDaemonProgram(); err != nil {
		return false, err
	}
	if err := m.Install(ctx, s); err != nil {
		return false, err
	}
	if linger {
		if err := lingerer.EnableLinger(ctx); err != nil {
			u.leaveOut("acpd ends with your last session: %s", err)
		}
	}
	return true, nil
}

// startAlone starts acpd in a session of its own, so that it continues when the terminal is closed.
func (u *run) startAlone(ctx context.Context, dir string) error {
	program, err := operate.FindDaemonProgram()
	if err != nil {
		return fmt.Errorf("up: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("up: make the state directory: %w: name another one with --home", err)
	}
	log := filepath.Join(dir, statedir.LogName)
	args := []string{"--home", dir, "--log-file", log}
	if u.name != "" {
		args = append(args, "--name", u.name)
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	said, err := os.CreateTemp("", "acpd-start")
	if err != nil {
		return fmt.Errorf("up: %w: set TMPDIR to a folder in which you may write", err)
	}
	defer said.Close()
	os.Remove(said.Name())
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("up: start acpd: %w", err)
	}
	u.Tell("started %s, which goes on until acpctl drain ends it or the machine stops; its log is %s", shellpath.Quote(program), shellpath.Quote(log))
	ended := make(chan error, 1)
	go func() { // it ends with the daemon, or with this process
		cmd.Wait()
		text, _ := io.ReadAll(io.NewSectionReader(said, 0, 4<<10))
		if why := strings.TrimPrefix(strings.TrimSpace(string(text)), "acpd: "); why != "" {
			ended <- fmt.Errorf("up: acpd has ended: %s", why)
			return
		}
		ended <- fmt.Errorf("up: acpd has ended (%s), and has not said why: acpctl doctor says more", cmd.ProcessState)
	}()
	return u.awaitDaemon(ctx, startTime, func() error {
		select {
		case err := <-ended:
			return err
		default:
			return nil
		}
	})
}

// watchService returns a function that returns an error if the process of a service has ended, and says how its log
// is shown. It asks the manager once a second.
func watchService(ctx context.Context, m service.Manager, s service.Service) func() error {
	next := time.Now().Add(time.Second)
	return func() error {
		if time.Now().Before(next) {
			return nil
		}
		next = time.Now().Add(time.Second)
		st, err := m.Inspect(ctx, s)
		if err != nil || !st.Ended {
			return nil
		}
		logs := "acpctl service logs"
		if s.Home != "" {
			logs = "acpctl --home " + shellpath.Quote(s.Home) + " service logs"
		}
		return fmt.Errorf("up: the service %s has ended (%s): %s shows its log", st.Unit, st.LastExit, logs)
	}
}

// awaitDaemon waits until the daemon answers, or until check says why it will not.
func (u *run) awaitDaemon(ctx context.Context, patience time.Duration, check func() error) (err error) {
	for end := time.Now().Add(patience); ; {
		if u.me, err = u.Daemon.Whoami(ctx); err == nil {
			u.Tell("acpd runs, and this machine is %s.", client.Line(u.me.Name))
			return nil
		}
		if err := check(); err != nil {
			return err
		}
		if time.Now().After(end) {
			return frame.WithHint(err, "acpctl doctor says more")
		}
		if err := pace.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}
