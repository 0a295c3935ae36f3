package operate

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/service"
)

// newServiceCmd returns the verb service with the verbs below it.
func (v *verbs) newServiceCmd() *cobra.Command {
	var s service.Service
	cmd := &cobra.Command{
		Use:   "service",
		Short: "Have acpd started by the system",
		Long: `Makes acpd your service, of systemd or of launchd on macOS: it is started when you log in, and
again if it fails or stands still. --home DIR means the daemon of another state directory: each
has a service of its own. The packages have a service of the machine.`,
		Example: `  acpctl service install                        with the state in ~/.acp
  acpctl service install --home ~/agents/desk   another one, there
  acpctl service status
  acpctl service logs -f
  acpctl service uninstall                      the state stays`,
	}
	frame.RequireVerb(cmd)
	cmd.AddCommand(v.newServiceInstallCmd(&s), v.newServiceUninstallCmd(&s), v.newServiceStatusCmd(&s), v.newServiceLogsCmd(&s))
	return cmd
}

// openManager returns the manager, and completes s by the flags of every verb.
func (v *verbs) openManager(cmd *cobra.Command, s *service.Service) (service.Manager, error) {
	if err := frame.CheckValuesNotEmpty(cmd, nil); err != nil {
		return nil, err
	}
	return OpenManager(v.Frame, s)
}

// OpenManager returns the manager of services, which prints what it does, and completes s by the state directory that
// --home or the environment names.
func OpenManager(f *frame.Frame, s *service.Service) (service.Manager, error) {
	if f.Home != "" || os.Getenv("ACP_HOME") != "" {
		var err error
		if s.Home, err = f.FindStateDir(); err != nil {
			return nil, fmt.Errorf("service: %w", err)
		}
	}
	if err := s.Check(); err != nil {
		return nil, frame.UsageErrorf("%w", err)
	}
	h, err := findServiceHost(f)
	if err != nil {
		return nil, err
	}
	if s.Home == filepath.Join(h.UserHome, ".acp") {
		s.Home = "" // the usual one, by the unit as it is
	}
	return service.NewManager(h)
}

// findServiceHost returns where the services of this user are made.
func findServiceHost(f *frame.Frame) (h service.Host, err error) {
	h = service.Host{Root: f.MachineRoot, Out: f.Out, Err: f.Err, Say: func(done, what string) {
		f.PrintData(serviceStep{done, what}, func() { f.PrintLine("%-6s %s", done, what) })
	}}
	if h.UserHome, err = os.UserHomeDir(); err != nil {
		return h, fmt.Errorf("service: find the home directory: %w: set HOME to it", err)
	}
	if u, err := user.Current(); err == nil {
		h.User = u.Username
	}
	if h.Config = os.Getenv("XDG_CONFIG_HOME"); !filepath.IsAbs(h.Config) {
		h.Config = filepath.Join(h.UserHome, ".config")
	}
	return h, nil
}

// serviceStep is what install and uninstall print with --json of each thing that they do.
type serviceStep struct {
	Done string `json:"done"` // ran, wrote, kept, removed, uses or found
	What string `json:"what"`
}

func (v *verbs) newServiceInstallCmd(s *service.Service) *cobra.Command {
	var linger bool
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Have acpd run now, and from every start on",
		Long: `Writes the file that defines the service, says its path, and has the system run it. A file of
that name that acpctl has not written stays as it is. It may be called again, for another
--home or --name, or after acpd has moved.

The service is given the acpd beside this acpctl, by its path in PATH if it has one, which
outlasts an update; else the acpd in PATH. It has the
environment of the system, not that of your shell: put settings into config.yaml.

Your own service ends with your last session. --linger lets it run from the start of the
machine on: with it, all your services do.`,
		Example: `  acpctl service install
  acpctl service install --linger               without anybody logged in, too
  acpctl service install --name desk --home ~/agents/desk`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := v.openManager(cmd, s)
			if err != nil {
				return err
			}
			if s.Program, err = FindDaemonProgram(); err != nil {
				return fmt.Errorf("service install: %w", err)
			}
			if err := m.Install(cmd.Context(), *s); err != nil {
				return err
			}
			lingerer, ok := m.(service.Lingerer)
			if !ok {
				return nil
			}
			if linger {
				return lingerer.EnableLinger(cmd.Context())
			}
			if lingers, known := lingerer.IsLingering(cmd.Context()); known && !lingers {
				v.PrintForPerson("It ends with your last session. To let it run from the start of the machine on: acpctl service install --linger")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&s.Name, "name", "", "what the daemon calls itself (default the host name)")
	cmd.Flags().BoolVar(&linger, "linger", false, "let your services run while you are not logged in (loginctl enable-linger)")
	return cmd
}

// FindDaemonProgram returns the path of acpd: in the folder of this program, else in PATH.
func FindDaemonProgram() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the path of acpctl: %w", err)
	}
	return findDaemonProgram(own)
}

func findDaemonProgram(own string) (string, error) {
	beside := filepath.Join(filepath.Dir(own), "acpd")
	if found, err := exec.LookPath(beside); err == nil {
		return frame.FindLastingPath("acpd", found), nil
	}
	found, err := exec.LookPath("acpd")
	if err == nil {
		found, err = filepath.Abs(found)
	}
	if err != nil {
		return "", fmt.Errorf("acpd is neither at %s nor in PATH: install it there", beside)
	}
	return found, nil
}

func (v *verbs) newServiceUninstallCmd(s *service.Service) *cobra.Command {
	return &cobra.Command{
		Use:   "uninstall",
		Short: "End the service and remove what install wrote",
		Long: `Ends the service, and removes the file that defines it if acpctl wrote it. The state
directory stays, with the identity in it.`,
		Example: `  acpctl service uninstall
  acpctl service uninstall --home ~/agents/desk`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := v.openManager(cmd, s)
			if err != nil {
				return err
			}
			if err := m.Uninstall(cmd.Context(), *s); err != nil {
				return err
			}
			v.PrintForPerson("The state directory stays: remove it by hand if nobody needs that identity again.")
			return nil
		},
	}
}

// serviceStatus is what status prints with --json.
type serviceStatus struct {
	service.State
	Home string `json:"home"`
}

func (v *verbs) newServiceStatusCmd(s *service.Service) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show whether the service runs, since when, and how it last ended",
		Long: `Shows what the system knows of the service; acpctl status shows what the daemon says of itself.
The exit code is 6 if it does not run.`,
		Example: `  acpctl service status
  acpctl service status --home ~/agents/desk --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := v.openManager(cmd, s)
			if err != nil {
				return err
			}
			st, err := m.Inspect(cmd.Context(), *s)
			if err != nil {
				return err
			}
			shown := serviceStatus{State: *st}
			if shown.Home, err = v.FindStateDir(); err != nil {
				return fmt.Errorf("service status: %w", err)
			}
			if err := v.PrintData(shown, func() { v.printServiceStatus(&shown) }); err != nil || st.Running {
				return err
			}
			return frame.Exit(frame.ExitNoDaemon)
		},
	}
}

func (v *verbs) printServiceStatus(s *serviceStatus) {
	installed := "no: acpctl service install"
	if s.Installed {
		installed = "yes"
		if s.Enabled != "" {
			installed += ", " + s.Enabled
		}
	}
	rows := [][2]string{{"unit", s.Unit}, {"installed", installed}, {"file", s.File}, {"state", s.Active}, {"since", s.Since}}
	if s.PID != 0 {
		rows = append(rows, [2]string{"pid", strconv.Itoa(s.PID)})
	}
	if s.Restarts > 0 {
		rows = append(rows, [2]string{"restarts", strconv.Itoa(s.Restarts)})
	}
	rows = append(rows, [2]string{"last exit", s.LastExit}, [2]string{"home", s.Home}, [2]string{"says", s.Says})
	v.PrintFields(rows...)
}

func (v *verbs) newServiceLogsCmd(s *service.Service) *cobra.Command {
	var lines int
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Show the log of the service",
		Long:  `Shows the last lines of the log: of systemd's journal by journalctl, on macOS of the log file.`,
		Example: `  acpctl service logs
  acpctl service logs -f -n 20                  the last 20 lines, and what comes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if lines < 0 {
				return frame.UsageErrorf("--lines: expected a number of lines")
			}
			if v.JSON {
				return frame.UsageErrorf("--json: the log is shown as the system has it: leave it out")
			}
			m, err := v.openManager(cmd, s)
			if err != nil {
				return err
			}
			return m.Logs(cmd.Context(), *s, lines, follow)
		},
	}
	cmd.Flags().IntVarP(&lines, "lines", "n", 100, "how many of the last lines")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes, until you interrupt it")
	return cmd
}
