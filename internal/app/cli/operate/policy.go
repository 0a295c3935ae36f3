package operate

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/internal/app/cli/frame"
)

func (v *verbs) newPolicyCmd() *cobra.Command {
	var p client.PolicyParams
	cmd := &cobra.Command{
		Use:   "policy PEER KIND",
		Short: "Show whether a peer may send a kind of message, and which rule decides",
		Example: `  acpctl policy laptop query --domain code.review
  acpctl policy laptop mail`,
		Long: `KIND is ping, discover, query, delegate or notify, or mail (OACP) or channel (OpenIntent), or
cancel, result or error, which belong to a delegation. It checks the settings policy and
limits.rate of config.yaml that are in effect now, as for a message. It shows the rule, its line,
the rate, and how many messages the peer may send at once now; it uses up none of them. The exit code is 0 if the policy allows it, and 4 if it does not.`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return config.ListPolicyKinds(), cobra.ShellCompDirectiveNoFileComp
			}
			return v.CompletePeers(cmd, args, begun, client.PeerConnected, client.PeerTrusted)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			p.Peer, p.Kind = args[0], args[1]
			if !config.IsPolicyKind(p.Kind) {
				return frame.UsageErrorf("KIND: %.64q: use %s", p.Kind, strings.Join(config.ListPolicyKinds(), ", "))
			}
			if cmd.Flags().Changed("domain") && p.Domain == "" {
				return frame.UsageErrorf("--domain: empty: give a value, or leave the flag out")
			}
			return v.showPolicy(cmd.Context(), p)
		},
	}
	cmd.Flags().StringVar(&p.Domain, "domain", "", "the domain that the message names (default none)")
	return cmd
}

func (v *verbs) showPolicy(ctx context.Context, params client.PolicyParams) error {
	p, err := v.Daemon.Policy(ctx, params)
	if err != nil {
		return err
	}
	err = v.PrintData(p, func() {
		answer := "no"
		if p.Allowed {
			answer = "yes"
		}
		v.PrintFields([2]string{"allowed", answer}, [2]string{"rule", p.Rule}, [2]string{"where", formatRulePlace(p)}, [2]string{"rate", formatRate(p.Rate)})
	})
	if err == nil && !p.Allowed {
		return frame.Exit(frame.ExitRefused)
	}
	return err
}

// formatRulePlace returns where the rule is written, "" if no rule decides.
func formatRulePlace(p *client.Policy) string {
	if p.Key == "" {
		return ""
	}
	if p.Place == 0 { // what an authority allows is no rule of policy
		return fmt.Sprintf("config.yaml:%d", p.Line)
	}
	return fmt.Sprintf("config.yaml:%d, rule %d of %d", p.Line, p.Place, p.Rules)
}

// formatRate returns the rate that applies, and what is left of it.
func formatRate(r *client.PolicyRate) string {
	if r == nil {
		return "no limit in limits.rate applies to it"
	}
	kinds := r.Kind
	if kinds == "*" {
		kinds = "all kinds together"
	}
	return fmt.Sprintf("%d left of %d at once, and %s a second, for %s (%s, config.yaml:%d)", r.Left, r.Burst, strconv.FormatFloat(r.PerSecond, 'g', -1, 64), kinds, r.Key, r.Line)
}
