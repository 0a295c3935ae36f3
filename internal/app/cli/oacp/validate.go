package oacp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/oacp/mailbox"
	oacpmsg "github.com/acpd/acpd/oacp/message"
)

func (o *verbs) newValidateCmd() *cobra.Command {
	var quiet bool
	cmd := &cobra.Command{
		Use:     "validate FILE",
		Short:   "Check a message file",
		Example: `  acpctl oacp validate draft.yaml`,
		Long:    `Checks a message file by the rules of the tool oacp, and prints each error in a line.`,
		RunE: o.withReferenceErrors(func(_ context.Context, args []string) error {
			path := filepath.Clean(args[0])
			data, err := mailbox.ReadFileOrLink(args[0])
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return fmt.Errorf("%s: there is no such file", path)
			case err != nil:
				return err
			}
			d, err := oacpmsg.ParseDocument(data)
			if err != nil {
				return err
			}
			lines := d.Validate()
			for _, line := range lines {
				fmt.Fprintf(o.Err, "ERROR: %s\n", client.Text(line))
			}
			err = o.printReport(struct {
				Path   string   `json:"path"`
				Valid  bool     `json:"valid"`
				Errors []string `json:"errors"`
			}{path, len(lines) == 0, lines}, func() {
				if len(lines) == 0 && !quiet {
					o.PrintLine("OK: %s", path)
				}
			})
			if len(lines) > 0 && err == nil {
				err = frame.Exit(frame.ExitLocal)
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&quiet, "quiet", false, "print nothing if it is valid")
	return cmd
}
