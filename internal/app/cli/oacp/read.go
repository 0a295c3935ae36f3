package oacp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/oacp/mailbox"
	"github.com/acpd/acpd/oacp/message"
)

func (o *verbs) newReadCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "read PROJECT AGENT ID|FILE",
		Short: "Print a message",
		Example: `  acpctl oacp read demo reviewer 20260101120000_planner_question_0a1b.yaml
  acpctl oacp read demo reviewer msg-20260101120000-planner-1b2c --json`,
		Long: `Prints a message of the agent's inbox, its archive or its outbox, byte for byte unless
standard output is a terminal. Only done takes a message out of the inbox.`,
		ValidArgsFunction: o.completeArgs,
		RunE: o.withReferenceErrors(func(_ context.Context, args []string) error {
			a, err := o.findAgent(args[0], args[1])
			if err != nil {
				return err
			}
			e, err := a.FindMessage(args[2])
			if err != nil {
				return err
			}
			if e.Data == nil {
				return addPathToError(e.Path, e.Err)
			}
			return o.printReport(newReadReport(e), func() { o.printMessage(e) })
		}),
	}
}

// addPathToError adds the path of the file that an error is about, unless the error has it.
func addPathToError(path string, err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); err == nil || ok {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// printMessage prints a message file. On a terminal, it removes control characters.
func (o *verbs) printMessage(e mailbox.Entry) {
	b := e.Data
	if o.OutTTY {
		b = []byte(client.Text(string(b)))
	}
	o.Out.Write(b)
}

// readReport holds what read prints with --json.
type readReport struct {
	File string `json:"file"`
	Path string `json:"path"`
	message.Message
	LoadError string `json:"load_error,omitempty"`
	YAML      string `json:"yaml"` // the file
}

func newReadReport(e mailbox.Entry) *readReport {
	r := &readReport{File: e.Name, Path: e.Path, Message: e.Message, YAML: string(e.Data)}
	if e.Err != nil {
		r.LoadError = e.Err.Error()
	}
	return r
}
