package oacp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/oacp/mailbox"
	oacpmsg "github.com/acpd/acpd/oacp/message"
)

func (o *verbs) validateCmd() *cobra.Command {
	var quiet, strict bool
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a message file",
		Example: `  acpctl oacp validate draft.yaml
  acpctl oacp validate draft.yaml --strict     also what the specification asks of a body`,
		Long: `Checks a message file by the rules of the tool oacp, and tells each error in a line.
With --strict it also warns where the body of a follow_up or review_… message lacks
what the specification asks; a warning fails nothing.`,
		Args: frame.NamedArgs("FILE"),
		RunE: o.runAsReference(func(_ context.Context, args []string) error {
			m, lines, err := validateFile(args[0])
			if err != nil {
				return err
			}
			for _, line := range lines {
				fmt.Fprintf(o.Err, "ERROR: %s\n", client.Text(line))
			}
			var warnings []string
			if strict {
				warnings = m.Strict()
			}
			for _, line := range warnings {
				fmt.Fprintf(o.Err, "WARNING: %s\n", client.Text(line))
			}
			path := filepath.Clean(args[0])
			if o.JSON {
				err = o.printJSON(struct {
					Path     string   `json:"path"`
					Valid    bool     `json:"valid"`
					Errors   []string `json:"errors"`
					Warnings []string `json:"warnings"`
				}{path, len(lines) == 0, lines, warnings}, true)
			}
			if len(lines) > 0 && err == nil {
				err = frame.Exit(frame.ExitLocal)
			}
			if err == nil && !quiet && !o.JSON {
				o.PrintLine("OK: %s", path)
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&quiet, "quiet", false, "print nothing if it is valid")
	cmd.Flags().BoolVar(&strict, "strict", false, "warn about bodies too")
	return cmd
}

// validateFile reads a message file and returns its errors, a line each.
func validateFile(path string) (oacpmsg.Message, []string, error) {
	data, err := mailbox.ReadNamed(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return oacpmsg.Message{}, nil, fmt.Errorf("message file does not exist: %s", filepath.Clean(path))
	case err != nil:
		return oacpmsg.Message{}, nil, fmt.Errorf("failed to read file: %w", err)
	}
	d, err := oacpmsg.Parse(data)
	if err != nil {
		return oacpmsg.Message{}, nil, err
	}
	return d.Message(), d.Validate(), nil
}
