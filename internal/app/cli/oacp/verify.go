package oacp

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/oacp/mailbox"
	oacpmsg "github.com/acpd/acpd/oacp/message"
)

func (o *verbs) newVerifyCmd() *cobra.Command {
	var pins, project, receiver, audit string
	var quarantine bool
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check the signature of a message file",
		Example: `  acpctl oacp verify FILE --project demo --receiver reviewer
  acpctl oacp verify FILE --pins allowed_signers.yaml --json`,
		Long: `Checks the signature in a message file against the keys that its receiver has pinned,
in trust/allowed_signers.yaml of its folder. Keys are made, and pinned, with the
tool oacp; acpctl oacp send signs with them.

Exit codes: 0 verified or not signed, 2 usage or no such file, 3 anything else.`,
		RunE: o.withReferenceErrors(func(_ context.Context, args []string) error {
			if (project == "") != (receiver == "") {
				return frame.UsageErrorf("--project and --receiver: each needs the other, to say whose pins to take")
			}
			data, err := mailbox.ReadFileOrLink(args[0])
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return misuseErrorf("message file does not exist: %s", filepath.Clean(args[0]))
			case err != nil:
				return misuseError{addPathToError(args[0], err)}
			}
			var trusted oacpmsg.Pins
			switch {
			case pins != "":
				trusted = mailbox.ReadPinFile(pins)
			case project != "":
				a, err := o.findAgent(project, receiver)
				if err != nil {
					return misuseError{err}
				}
				trusted = a.ReadPins()
			}
			report := verifyReport{Auth: oacpmsg.VerifyMessage(data, trusted, time.Now())}
			if quarantine && report.Status == oacpmsg.Invalid {
				if report.Copy, err = mailbox.QuarantineFile(args[0], data); err != nil {
					return misuseError{err}
				}
			}
			if audit != "" {
				if err := mailbox.AddAuditJudgement(audit, report); err != nil {
					return misuseErrorf("attach-audit failed: %w", err)
				}
			}
			err = o.printReport(report, func() { o.PrintLine("%s", client.Line(report.String())) })
			if err == nil && !report.IsAcceptable() {
				err = frame.Exit(exitUnverified)
			}
			return err
		}),
	}
	f := cmd.Flags()
	f.Var((*shellpath.Flag)(&pins), "pins", "file of the pinned keys")
	f.StringVar(&project, "project", "", "with --receiver: take the pins of an agent")
	f.StringVar(&receiver, "receiver", "", "the agent whose pins to take")
	f.StringVar(&audit, "attach-audit", "", "record the judgement in this audit record of the autonomy gate")
	f.BoolVar(&quarantine, "quarantine", false, "keep a copy in dead_letter/ if the signature is invalid")
	return cmd
}

// exitUnverified says, as the reference's exit code, that a signature proves nothing.
const exitUnverified = 3

type verifyReport struct {
	oacpmsg.Auth
	Copy string `json:"quarantine_copy,omitempty"`
}
