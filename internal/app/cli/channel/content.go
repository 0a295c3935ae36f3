package channel

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/app/cli/frame"
)

// payloadArg holds what send, ask and reply send: their last argument, or the value of --payload.
type payloadArg struct{ payload string }

func (s *payloadArg) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.payload, "payload", "", "a JSON object, @file or -, instead of TEXT")
}

// newArgsCheck checks that there are these arguments and, without --payload, TEXT.
func (s *payloadArg) newArgsCheck(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if s.payload == "" {
			return frame.NamedArgs(append(names[:len(names):len(names)], "TEXT")...)(nil, args)
		}
		if len(args) > len(names) {
			return errors.New("--payload stands instead of TEXT: leave one of them out")
		}
		return frame.NamedArgs(names...)(nil, args)
	}
}

// readPayload returns the payload, a JSON object.
func (s *payloadArg) readPayload(ctx context.Context, a *frame.Frame, args []string) (jsontext.Value, error) {
	if s.payload != "" {
		return a.ReadObject(ctx, "--payload", s.payload)
	}
	text, err := a.ReadArgument(ctx, "TEXT", args[len(args)-1])
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]string{"text": text})
}

// formatPayload returns the text of a payload that has nothing else, otherwise the whole
// payload.
func formatPayload(payload jsontext.Value) string {
	var said map[string]any
	if json.Unmarshal(payload, &said) == nil && len(said) == 1 {
		if text, ok := said["text"].(string); ok {
			return text
		}
	}
	return string(payload)
}
