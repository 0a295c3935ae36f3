package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/oacp/mailbox"
	letters "github.com/acpd/acpd/oacp/message"
)

func (o *oacp) validateCmd() *cobra.Command {
	var quiet, strict bool
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a message file",
		Example: `  acpctl oacp validate draft.yaml
  acpctl oacp validate draft.yaml --strict     also what the specification asks of a body`,
		Long: `Checks a message file by the rules of the tool oacp, and tells each error in a line.
With --strict it also warns where the body of a follow_up or review_… message lacks
what the specification asks; a warning fails nothing.`,
		Args: words("FILE"),
		RunE: o.run(func(_ context.Context, args []string) error {
			m, lines, err := validate(args[0])
			if err != nil {
				return err
			}
			for _, line := range lines {
				fmt.Fprintf(o.err, "ERROR: %s\n", client.Text(line))
			}
			var warnings []string
			if strict {
				warnings = m.Strict()
			}
			for _, line := range warnings {
				fmt.Fprintf(o.err, "WARNING: %s\n", client.Text(line))
			}
			path := filepath.Clean(args[0])
			if o.json {
				err = o.lines(struct {
					Path     string   `json:"path"`
					Valid    bool     `json:"valid"`
					Errors   []string `json:"errors"`
					Warnings []string `json:"warnings"`
				}{path, len(lines) == 0, lines, warnings}, true)
			}
			if len(lines) > 0 && err == nil {
				err = exit(exitLocal)
			}
			if err == nil && !quiet && !o.json {
				o.say("OK: %s", path)
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&quiet, "quiet", false, "print nothing if it is valid")
	cmd.Flags().BoolVar(&strict, "strict", false, "warn about bodies too")
	return cmd
}

// validate reads a file and returns the lines of its errors.
func validate(path string) (letters.Message, []string, error) {
	data, err := mailbox.ReadNamed(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return letters.Message{}, nil, fmt.Errorf("message file does not exist: %s", filepath.Clean(path))
	case err != nil:
		return letters.Message{}, nil, fmt.Errorf("failed to read file: %w", err)
	}
	d, err := letters.Parse(data)
	if err != nil {
		return letters.Message{}, nil, err
	}
	return d.Message(), d.Validate(), nil
}

func (o *oacp) verifyCmd() *cobra.Command {
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
		Args: words("FILE"),
		RunE: o.run(func(_ context.Context, args []string) error {
			data, err := mailbox.ReadNamed(args[0])
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return misusef("message file does not exist: %s", filepath.Clean(args[0]))
			case err != nil:
				return misuse{err}
			}
			var trusted letters.Pins
			switch {
			case pins != "":
				trusted = mailbox.ReadPins(pins)
			case project != "" && receiver != "":
				a, err := o.agent(project, receiver)
				if err != nil {
					return misuse{err}
				}
				trusted = a.Pins()
			}
			report := verifyReport{Auth: letters.Verify(data, trusted, time.Now())}
			if quarantine && report.Status == letters.Invalid {
				if report.Copy, err = mailbox.Quarantine(args[0], data); err != nil {
					return misuse{err}
				}
			}
			if audit != "" {
				if err := mailbox.AttachAudit(audit, report); err != nil {
					return misusef("attach-audit failed: %w", err)
				}
			}
			if o.json {
				err = o.lines(report, true)
			} else {
				o.say("%s", client.Line(report.String()))
			}
			if err == nil && !report.OK() {
				err = exit(exitUnverified)
			}
			return err
		}),
	}
	f := cmd.Flags()
	f.StringVar(&pins, "pins", "", "file of the pinned keys")
	f.StringVar(&project, "project", "", "with --receiver: take the pins of an agent")
	f.StringVar(&receiver, "receiver", "", "the agent whose pins to take")
	f.StringVar(&audit, "attach-audit", "", "record the judgement in this audit record of the autonomy gate")
	f.BoolVar(&quarantine, "quarantine", false, "keep a copy in dead_letter/ if the signature is invalid")
	return cmd
}

// exitUnverified is the reference's exit code for a signature that proves nothing.
const exitUnverified = 3

type verifyReport struct {
	letters.Auth
	Copy string `json:"quarantine_copy,omitempty"`
}
