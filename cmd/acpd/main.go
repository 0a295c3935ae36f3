// Command acpd is the daemon: one state directory, one identity, one process.
//
// It exits with 0 after SIGTERM or SIGINT, 1 after an error on this machine, and 2
// after a wrong command line. It writes the text for a person at the first start to
// standard output, and the log to standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/pflag"

	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/buildinfo"
	"github.com/acpd/acpd/internal/shellpath"
)

func main() {
	limitThreads()
	setCollectorPace()
	os.Exit(runCommandLine(os.Args[1:], os.Stdout, os.Stderr))
}

const (
	exitFailure = 1
	exitUsage   = 2
)

func runCommandLine(args []string, stdout, stderr io.Writer) int {
	err := runFlags(args, stdout, stderr)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "acpd:", err)
	if _, ok := errors.AsType[*daemonError](err); ok {
		return exitFailure
	}
	fmt.Fprintln(stderr, "See: acpd --help")
	return exitUsage
}

// daemonError is an error of the daemon, as opposed to one of usage.
type daemonError struct{ error }

func (f *daemonError) Unwrap() error { return f.error }

const help = `acpd runs until it gets SIGTERM or SIGINT; SIGHUP makes it read config.yaml again.
The state directory is --home, else $ACP_HOME, else ~/.acp. Settings beyond these
flags stand in config.yaml there: acpd --settings prints what it may hold.

Usage:
  acpd [flags]

Examples:
  acpd                                          run with the state in ~/.acp
  acpd --home /srv/reviewer                     a second identity on this machine
  acpd --home /tmp/a --listen 127.0.0.1:0 --no-mdns   one of many, for a test

Flags:
`

// runFlags does what the flags say.
func runFlags(args []string, stdout, stderr io.Writer) error {
	var o daemon.Options
	var verbose, quiet, settings, showVersion, asJSON, showHelp bool
	var logPath string
	f := pflag.NewFlagSet("acpd", pflag.ContinueOnError)
	f.Usage = func() {} // an error says which flag is wrong, and where to read more
	f.BoolVarP(&showHelp, "help", "h", false, "help for acpd")
	f.Var((*shellpath.Flag)(&o.Home), "home", "state directory (default $ACP_HOME or ~/.acp)")
	f.StringVar(&o.Listen, "listen", "", "UDP address to listen on, as host:port (default port 7117)")
	f.StringVar(&o.Name, "name", "", "what this daemon calls itself (default the host name)")
	f.BoolVar(&o.NoMDNS, "no-mdns", false, "do not announce this daemon or look for others by mDNS")
	f.BoolVarP(&verbose, "verbose", "v", false, "log more")
	f.BoolVarP(&quiet, "quiet", "q", false, "log errors only")
	f.Var((*shellpath.Flag)(&logPath), "log-file", "write the log to this file, which stays below 8 MiB; FILE.old has the older lines")
	f.Var((*shellpath.Flag)(&o.Pprof), "pprof", "serve profiles of this process on a unix socket at this path, for you alone")
	f.BoolVar(&settings, "settings", false, "print what config.yaml may hold, as a file to start from")
	f.BoolVar(&showVersion, "version", false, "print the version, and of what this program was built")
	f.BoolVar(&asJSON, "json", false, "with --version: print JSON")
	if err := f.Parse(args); err != nil {
		return explainUnknownFlag(f, err)
	}
	show := func(text string) error {
		_, err := io.WriteString(stdout, text)
		return err
	}
	switch {
	case showHelp:
		return show(help + f.FlagUsages())
	case f.NArg() > 0:
		return fmt.Errorf("%q: flags are all that acpd takes; the verbs are those of acpctl", f.Arg(0))
	case showVersion:
		text, err := renderVersion(asJSON)
		if err != nil {
			return err
		}
		return show(text)
	case asJSON:
		return errors.New("--json: goes only with --version: leave it out")
	case settings:
		return show(config.RenderReferenceFile())
	case verbose && quiet:
		return errors.New("--verbose and --quiet: give one of them")
	case verbose:
		o.Level = new(slog.LevelDebug)
	case quiet:
		o.Level = new(slog.LevelError)
	}
	if err := checkFlags(f, &o); err != nil {
		return err
	}
	o.Version, o.Log, o.Connected = buildinfo.Read().Version, stderr, adjustThreads
	if logPath != "" {
		log, err := openLogFile(logPath, maxLogFile)
		if err != nil {
			return &daemonError{err}
		}
		o.Log = log
	}
	if err := runDaemon(context.Background(), o, stdout); err != nil {
		if logPath != "" {
			fmt.Fprintln(o.Log, "acpd:", err)
		}
		return &daemonError{err}
	}
	return nil
}

// explainUnknownFlag adds to the error of a flag that acpd does not have which one may have been meant.
func explainUnknownFlag(known *pflag.FlagSet, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	var names []string
	known.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := identity.SuggestNames(unknown.GetSpecifiedName(), names); len(near) > 0 {
		return fmt.Errorf("%w: did you mean --%s?", err, strings.Join(near, " or --"))
	}
	return err
}

// checkFlags refuses flags that no daemon could take, and empty ones: a variable that is not
// set in a script must not mean the usual directory.
func checkFlags(given *pflag.FlagSet, o *daemon.Options) (err error) {
	given.Visit(func(f *pflag.Flag) {
		if f.Value.String() == "" {
			err = fmt.Errorf("--%s: empty: give a value, or leave the flag out", f.Name)
		}
	})
	if err != nil {
		return err
	}
	if o.Name != "" {
		if err := identity.CheckName(o.Name); err != nil {
			return fmt.Errorf("--name: %w", err)
		}
	}
	if o.Listen != "" {
		_, port, err := net.SplitHostPort(o.Listen)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if errors.Is(err, strconv.ErrRange) {
			return fmt.Errorf("--listen %q: port %s: at most 65535", o.Listen, port)
		}
		if err != nil {
			return fmt.Errorf("--listen %q: write host:port, like 0.0.0.0:7117 or 127.0.0.1:0", o.Listen)
		}
	}
	return nil
}

// startTime is longer than a start takes: discovery has sent and heard the first packets by
// then.
const startTime = 10 * time.Second

// runDaemon runs a daemon until a signal ends it.
func runDaemon(ctx context.Context, o daemon.Options, stdout io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)

	d, err := daemon.OpenDaemon(ctx, o)
	if disk.IsFullError(err) && !strings.Contains(err.Error(), "free some space") {
		return fmt.Errorf("%w: free some space on the disk of the state directory, then start acpd again", err)
	}
	if errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w: mount the disk of the state directory for writing, or name another directory with --home", err)
	}
	if err != nil {
		return err
	}
	if d.HasNewIdentity() {
		printWelcome(stdout, d)
	}
	started := time.AfterFunc(startTime, func() { releaseProgramPages() }) // best effort: only a figure depends on it
	defer started.Stop()
	return d.Run(ctx, hangup)
}

// printWelcome prints what the owner needs first. It is called once, when the identity was
// made.
func printWelcome(w io.Writer, d *daemon.Daemon) {
	home := ""
	if usual, err := daemon.ResolveHome(""); err != nil || usual != d.Dir() {
		home = "ACP_HOME=" + shellpath.Quote(d.Dir()) + " "
	}
	fmt.Fprintf(w, "New identity %s\nListening on %s\nConnect another machine: %sacpctl up\n", d.ID(), strings.Join(d.Addrs(), ", "), home)
}

// renderVersion returns what --version prints.
func renderVersion(asJSON bool) (string, error) {
	info := buildinfo.Read()
	if !asJSON {
		return "acpd " + info.String() + "\n", nil
	}
	text, err := json.Marshal(info)
	return string(text) + "\n", err
}
