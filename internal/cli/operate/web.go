package operate

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/internal/web"
)

func (v *verbs) newWebCmd() *cobra.Command {
	var port int
	var noOpen bool
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Show in the browser who is there, who waits for whom, and what is said",
		Example: `  acpctl web                        prints a link, and opens it
  acpctl web --no-open --port 7000  for a browser at the other end of ssh -L 7000:127.0.0.1:7000`,
		Long: `Serves a page on a port of 127.0.0.1, until ^C. It shows peers and how they are connected, who
waits for whom and since when, messages by thread from when the page was opened, agents and what they
spent, delegations, held messages, channels, mail and budgets. It decides approvals and mutes
sessions, and changes nothing else.

The link works once, and within a minute. Then the browser that has opened it has a cookie, and
nothing else on this machine gets anything. While no browser has the page open, the daemon is
asked nothing.`,
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

// serveWeb serves the page until ctx ends, which is no error.
func (v *verbs) serveWeb(ctx context.Context, port int, open bool) error {
	if _, err := v.Daemon.Whoami(ctx); err != nil {
		return err
	}
	v.Daemon.Close()
	s, err := web.Open(ctx, web.Options{
		Socket: v.Daemon.Socket, Home: v.Home, Port: port,
		Tell: func(line string) { v.PrintForPerson("%s", client.Line(line)) },
	})
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
	case open && openBrowser(link):
		v.PrintForPerson("it opens in your browser; ^C ends it")
	default:
		v.PrintForPerson("open this link in your browser within a minute: it works once; ^C ends it")
	}
	if err := s.Run(ctx); ctx.Err() == nil {
		return err
	}
	return nil // that is how the page usually ends
}

// openBrowser has the desktop open a link, and reports whether there is a desktop that can. The
// browser stays when this process ends.
func openBrowser(link string) bool {
	name := "xdg-open"
	switch {
	case runtime.GOOS == "darwin":
		name = "open"
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return false
	}
	cmd := exec.Command(name, link)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // ^C is not for a browser that it starts
	if cmd.Start() != nil {
		return false
	}
	cmd.Process.Release()
	return true
}
