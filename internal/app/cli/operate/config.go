package operate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/yamldoc"
)

func (v *verbs) newConfigCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check a configuration file",
		Example: `  acpctl config check config.yaml
  acpctl reload                     take the file over`,
	}
	frame.RequireVerb(cmd)
	cmd.AddCommand(v.newConfigCheckCmd())
	return cmd
}

func (v *verbs) newConfigCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Say what is wrong in a configuration file, without a daemon",
		Example: `  acpctl config check ~/.acp/config.yaml
  acpctl config check - <config.yaml
  acpd --settings                   what the file may hold`,
		Long: `Reads FILE, or standard input for -, as acpd would. It prints a line for each thing that is
wrong: the file, the line, what is wrong and what to write instead; the first 20, and how many
more there are. The exit code is 0 if acpd would start with the file and use all of it, 1 if it
would skip settings that are gone, of which it warns, and 2 if it would not start.

It reads the files that organisation.authorities names too, and warns of a certificate that cannot be
read, and of credentials of relays that are not there, or open to others; a relative path is in the
state directory. What stands in credentials, acpctl reload and acpctl relay test look at.
Whether the peers and interfaces that it names are there, only a daemon knows: acpctl reload and
acpctl status warn of those that are not.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return v.checkConfig(cmd.Context(), args[0])
		},
	}
}

// configCheck is what config check prints with --json.
type configCheck struct {
	File     string        `json:"file"`
	Valid    bool          `json:"valid"`
	Errors   []configError `json:"errors"`
	Warnings []string      `json:"warnings,omitzero"`
}

type configError struct {
	Line    int    `json:"line,omitzero"` // 0: none
	Key     string `json:"key,omitzero"`
	Problem string `json:"problem"`
	Remedy  string `json:"remedy,omitzero"`
}

func (v *verbs) checkConfig(ctx context.Context, file string) error {
	var warnings, skipped []string
	conf, err := v.readConfig(ctx, file)
	if err == nil {
		skipped = conf.Skipped
	}
	if home, homeErr := v.FindStateDir(); err == nil && homeErr == nil {
		warnings, err = conf.CheckStateFiles(file, home)
	}
	wrong := config.ListErrors(err)
	if err != nil && len(wrong) == 0 {
		return err
	}
	check := configCheck{File: file, Valid: len(wrong) == 0, Errors: []configError{}}
	for _, e := range wrong {
		check.Errors = append(check.Errors, configError{e.Line, e.Key, e.Problem, e.Remedy})
	}
	if check.Valid {
		check.Warnings = slices.Concat(skipped, warnings)
	}
	err = v.PrintData(check, func() {
		for _, e := range wrong {
			v.PrintLine("%s", client.Line((*yamldoc.Error)(e).Error()))
		}
		for _, w := range check.Warnings {
			v.PrintLine("warning: %s", client.Line(w))
		}
		if check.Valid {
			v.PrintLine("%s: valid", client.Line(file))
		}
	})
	if err == nil && !check.Valid {
		return frame.Exit(frame.ExitUsage)
	}
	if err == nil && len(skipped) > 0 {
		return frame.Exit(frame.ExitLocal)
	}
	return err
}

// readConfig reads a file, or standard input for "-", as the daemon reads config.yaml.
func (v *verbs) readConfig(ctx context.Context, file string) (*config.Config, error) {
	if file == "-" {
		text, err := v.ReadStdin(ctx)
		if err != nil {
			return nil, err
		}
		return config.ReadConfig("standard input", strings.NewReader(text))
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("FILE: %s is not there: acpd runs with the defaults where it has no config.yaml; name a file that is there", file)
	}
	if err != nil {
		return nil, fmt.Errorf("FILE: %w: name a file that you can read", err)
	}
	defer f.Close()
	return config.ReadConfig(file, f)
}
