package operate

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/web"
)

func (v *verbs) newWebCmd() *cobra.Command {
	var port int
	var noOpen bool
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Show in the browser who is there, who waits for whom, and what is said",
		Example: `  acpctl web                        prints a link, opens it, and asks for a number
  acpctl web --no-open --port 7000  for a browser at the other end of ssh -L 7000:127.0.0.1:7000`,
		Long: `Serves a page on a port of 127.0.0.1, until ^C. It shows peers and how they are connected, who
waits for whom and since when, messages by thread, agents and what they spent, delegations, held
messages, files, channels, mailboxes and what peers use. There you can approve what asks for it, mute
sessions and remove held messages; the page changes nothing else.

The link works once, and within a minute. Then the browser that has opened it has a cookie, and
nothing else on this machine gets anything. A link that acpctl opens stands in the command line
of a program, which others can read: so the browser shows a number first, and the page
comes when you have typed it here. A link that only you have seen needs none (--no-open); without a
terminal to type at, no browser is opened. While no browser has the page open, the daemon is
asked nothing; the terminal rings its bell when something begins to wait for you.`,
		Args: frame.NamedArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case port < 0 || port > 65535:
				return frame.UsageErrorf("--port: %d: expected a number from 1 to 65535", port)
			case v.AsGuest:
				return frame.UsageErrorf("the page is for whoever the daemon belongs to, and ACP_SOCKET is set: unset it")
			}
			return v.serveWeb(cmd.Context(), port, !noOpen)
		},
	}
	cmd.Flags().IntVar(&port, "port", 0, "the port on 127.0.0.1 (default: one that is free)")
	cmd.Flags().BoolVar(&noOpen, "no-open", false, "print the link, and open no browser")
	return cmd
}

// webPage is what web prints with --json.
type webPage struct {
	Link string `json:"link"` // works once, within a minute
	Port int    `json:"port"`
}

// serveWeb serves the page until ctx ends; then it returns nil.
func (v *verbs) serveWeb(ctx context.Context, port int, open bool) error {
	if _, err := v.Daemon.Whoami(ctx); err != nil {
		return err
	}
	v.Daemon.Close()
	o := web.Options{
		Socket: v.Daemon.Socket, Home: v.Home, Port: port,
		Tell: func(line string) { v.Warn("%s", line) },
	}
	opener := ""
	if open {
		opener = findOpener()
	}
	canAsk := v.InTTY && v.ErrTTY && !v.IsInBackground()
	if opener != "" && canAsk {
		o.AskNumber = v.askNumber
	}
	s, err := web.Open(ctx, o)
	if err != nil {
		return err
	}
	link := s.Link()
	err = v.PrintData(webPage{link, s.Port()}, func() { v.PrintLine("%s", link) })
	if err == nil {
		err = v.CheckOutput()
	}
	if err != nil {
		s.Close()
		return err
	}
	switch {
	case opener != "" && !canAsk:
		v.Warn("no browser is opened: other programs can read its command line, and nobody can be asked at this terminal which browser has the link: open it yourself within a minute")
	case opener != "" && openBrowser(opener, link):
		v.Tell("it opens in your browser, which shows a number to type here; ^C ends it")
	default:
		v.PrintForPerson("open this link in your browser within a minute: it works once; ^C ends it")
	}
	v.ShareStreams() // the bell and the page both tell
	ringing, endRinging := context.WithCancel(ctx)
	var bell sync.WaitGroup
	bell.Go(func() { v.RingWhenNeeded(ringing) })
	err = s.Run(ctx)
	endRinging()
	bell.Wait()
	if ctx.Err() == nil {
		return err
	}
	return nil // that is how the page usually ends
}

// askNumber asks for the number that the browser shows.
func (v *verbs) askNumber(ctx context.Context) (string, error) {
	fmt.Fprint(v.Err, "a browser has opened the link; type the number that it shows: ")
	return v.ReadLine(ctx)
}

// findOpener returns the program by which the desktop opens a link, or "".
func findOpener() string {
	name := "xdg-open"
	switch {
	case runtime.GOOS == "darwin":
		name = "open"
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return ""
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

// openBrowser has the desktop open a link by a program, and reports whether that has started. The browser
// stays when this process ends.
func openBrowser(opener, link string) bool {
	cmd := exec.Command(opener, link)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // ^C is not for a browser that it starts
	if cmd.Start() != nil {
		return false
	}
	cmd.Process.Release()
	return true
}
