package operate

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/harness/setup"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/internal/app/doctor"
	"github.com/acpd/acpd/internal/shellpath"
)

// doctorFlags are the flags of doctor.
type doctorFlags struct {
	fix, verbose bool
	bundle       string
}

func (v *verbs) newDoctorCmd() *cobra.Command {
	var flags doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor [PEER]",
		Short: "Find out what is wrong, and what to do",
		Example: `  acpctl doctor
  acpctl doctor -v                  also what is fine
  acpctl doctor desk                each address of one peer, its versions, both policies
  acpctl doctor --fix               fix modes, remove leftovers
  acpctl doctor --bundle bug.json   what a bug report needs`,
		Long: `Looks at the state directory, the daemon, the network of this machine, the peers, and what is connected to the
daemon. It prints what is wrong or needs a decision, each with what to do, and counts the rest. The marks: [x] failed, [!]
warning, [i] note, [+] fine. docs/operate.md lists the codes in brackets.

It changes nothing without --fix. Where no daemon runs it reads the files. With --json each finding is an object,
{code, severity, subject, what, remedy}, also those that are fine.

--bundle writes the codes of the findings, the versions and the settings into a new JSON file
that only you can read, and sends it nowhere. It names no peer, address or file: a setting
that could name something is only "set".

Exit codes: 0 if nothing failed, also with warnings; 1 if something did.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return v.runDoctor(cmd.Context(), frame.FirstOrEmpty(args), &flags)
		},
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return v.CompletePeers(cmd, args, begun, client.PeerConnected, client.PeerTrusted)
	}
	f := cmd.Flags()
	f.BoolVar(&flags.fix, "fix", false, "fix what is safe to fix: modes of files, the socket of a killed daemon")
	f.Var((*shellpath.Flag)(&flags.bundle), "bundle", "write what a bug report needs into this new JSON file")
	f.BoolVarP(&flags.verbose, "verbose", "v", false, "show also what is fine")
	return cmd
}

func (v *verbs) runDoctor(ctx context.Context, peer string, flags *doctorFlags) error {
	switch {
	case v.AsGuest:
		return frame.UsageErrorf("doctor is for the daemon's owner, and ACP_SOCKET is an agent's: unset it")
	case peer != "" && (flags.fix || flags.bundle != ""):
		return frame.UsageErrorf("--fix and --bundle are about this machine: leave PEER out")
	case flags.bundle != "" && flags.fix:
		return frame.UsageErrorf("--bundle and --fix: first the one, then the other")
	}
	o, err := v.findDoctorOptions(peer)
	if err != nil {
		return err
	}
	v.PrintForPerson("Looking…")
	findings, err := doctor.Examine(ctx, o)
	if err != nil {
		return err
	}
	if flags.bundle != "" {
		return v.writeBundle(ctx, o, findings, flags.bundle)
	}
	if flags.fix {
		doctor.Mend(findings)
	}
	if err := v.printFindings(findings, flags.verbose || peer != ""); err != nil {
		return err
	}
	if doctor.HasFailure(findings) {
		return frame.Exit(frame.ExitLocal)
	}
	return nil
}

// findDoctorOptions returns what is examined: the daemon that the flags and the environment name,
// this machine, and the programs and mailboxes of this user.
func (v *verbs) findDoctorOptions(peer string) (o doctor.Options, err error) {
	home, err := v.FindStateDir()
	if err != nil {
		return o, fmt.Errorf("doctor: %w", err)
	}
	o = doctor.Options{
		Home: home, Version: v.version, Daemon: &v.Daemon, Machine: doctor.ThisMachine(), Peer: peer,
		Channels: &channels.Client{Daemon: &v.Daemon, Home: v.Home},
	}
	if h, err := findServiceHost(v.Frame); err == nil {
		o.Services = h.ListInstalled()
	}
	if o.Setup, err = setup.FindOptions(); err != nil {
		return o, nil // a service user without a home has no agent programs
	}
	if o.Setup.Command, err = frame.FindOwnPath(); err != nil {
		return o, fmt.Errorf("doctor: find the path of acpctl: %w", err)
	}
	if home != filepath.Join(o.Setup.Home, ".acp") {
		o.Setup.Socket = filepath.Join(home, client.AgentFolder, client.SocketName)
	}
	return o, nil
}

// marks are what stands before a finding, and in which colour.
var marks = map[doctor.Severity][2]string{
	doctor.OK: {ui.Green, "[+]"}, doctor.Note: {"", "[i]"}, doctor.Warning: {ui.Yellow, "[!]"}, doctor.Failure: {ui.Red, "[x]"},
}

// printFindings prints findings, as objects with --json. Unless all are wanted, it only counts those that need no
// action.
func (v *verbs) printFindings(findings []doctor.Finding, all bool) error {
	counts := make(map[doctor.Severity]int)
	rest := 0
	for i := range findings {
		f := &findings[i]
		counts[f.Severity]++
		isFine := (f.Severity == doctor.OK || f.Severity == doctor.Note) && f.Remedy == "" && f.Fixed == ""
		switch {
		case v.JSON:
			if err := v.PrintJSON(f); err != nil {
				return err
			}
		case isFine && !all:
			rest++
		default:
			v.printFinding(f)
		}
	}
	if v.JSON {
		return nil
	}
	colour, told := ui.Green, "nothing is wrong"
	switch failures, warnings := counts[doctor.Failure], counts[doctor.Warning]; {
	case failures > 0:
		colour, told = ui.Red, fmt.Sprintf("failed, marked [x]: %d; warnings, marked [!]: %d", failures, warnings)
	case warnings > 0:
		colour, told = ui.Yellow, fmt.Sprintf("nothing failed; warnings, marked [!]: %d", warnings)
	}
	if rest > 0 {
		told += fmt.Sprintf("; the other %d findings are fine (-v shows them)", rest)
	}
	v.PrintLine("%s", v.ColourText(colour, ui.WrapLines(told, v.OutWidth())))
	return nil
}

// printFinding prints a line that says what was found, and one that says what to do.
func (v *verbs) printFinding(f *doctor.Finding) {
	line := func(before, text string) string {
		if !v.OutTTY {
			return before + text
		}
		return ui.WrapBehind(before, text, v.OutWidth())
	}
	mark := marks[f.Severity]
	v.PrintLine("%s%s", v.ColourText(mark[0], mark[1]), line(mark[1]+" ", fmt.Sprintf("%s (%s)", client.Line(f.What), f.Code))[len(mark[1]):])
	if f.Fixed != "" {
		v.PrintLine("%s", line("    ", "done: "+client.Line(f.Fixed)))
	}
	if f.Remedy != "" {
		v.PrintLine("%s", line("    ", client.Line(f.Remedy)))
	}
}

// writeBundle writes the bundle, and says where it is.
func (v *verbs) writeBundle(ctx context.Context, o doctor.Options, findings []doctor.Finding, path string) error {
	if err := doctor.NewBundle(ctx, o, findings).Write(path); err != nil {
		return err
	}
	v.SetDoneNote("the bundle is written: %s", path)
	return v.PrintData(struct {
		Bundle string `json:"bundle"`
	}{path}, func() { v.PrintLine("wrote %s: look into it before you send it", client.Line(path)) })
}
