package operate

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/frame"
)

func (v *verbs) newCertCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cert",
		Short: "Show the certificate of this daemon, or what an authority signs for it",
		Example: `  acpctl cert request >acpd.pub
  ssh-keygen -s corp -h -I build-7 -n acp:build-7,acp:group:ci -V +7d acpd.pub
  acpctl cert check acpd-cert.pub`,
	}
	frame.RequireVerb(cmd)
	cmd.AddCommand(v.newCertRequestCmd(), v.newCertShowCmd(), v.newCertCheckCmd())
	return cmd
}

func (v *verbs) newCertRequestCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "request",
		Short:   "Print the daemon's key as the line that an authority signs",
		Example: `  acpctl cert request >acpd.pub`,
		Long: `Prints the key of the daemon as a line of OpenSSH's public key files. Whoever has the
authority's key signs it with ssh-keygen -s, or with another program that signs host certificates
of OpenSSH. The line is no secret.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := v.Daemon.Certificate(cmd.Context(), client.CertificateParams{})
			if err != nil {
				return err
			}
			return v.PrintData(certRequest{c.Request}, func() { v.PrintLine("%s", client.Line(c.Request)) })
		},
	}
}

// certRequest is what cert request prints with --json.
type certRequest struct {
	Request string `json:"request"`
}

func (v *verbs) newCertShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "show",
		Short:   "Show the certificate of this daemon, and whose certificates are valid here",
		Example: `  acpctl cert show`,
		Long: `Shows the certificate that the daemon shows to others, what is wrong with it or will be soon,
and the authorities under organisation in config.yaml. The exit code is 0 also if something is
wrong: acpctl status and acpctl doctor say that too.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := v.Daemon.Certificate(cmd.Context(), client.CertificateParams{})
			if err != nil {
				return err
			}
			return v.PrintData(c, func() { v.printCertificates(c) })
		},
	}
}

func (v *verbs) newCertCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Say what a certificate file says, and whether it is valid for this daemon",
		Example: `  acpctl cert check acpd-cert.pub
  acpctl cert check - <acpd-cert.pub`,
		Long: `Reads FILE, or standard input for -, and has the daemon check it as peers would that have the
same authorities: for its key, signed by one of them, valid now. Nothing is changed. The exit code
is 0 if it counts, else 4.`,
		RunE: func(cmd *cobra.Command, args []string) error { return v.checkCertificate(cmd.Context(), args[0]) },
	}
}

func (v *verbs) checkCertificate(ctx context.Context, file string) error {
	text, err := v.readCertificateFile(ctx, file)
	if err != nil {
		return err
	}
	c, err := v.Daemon.Certificate(ctx, client.CertificateParams{File: text})
	if err != nil {
		return err
	}
	if err := v.PrintData(c, func() { v.printCertificates(c) }); err != nil {
		return err
	}
	if c.Problem != "" {
		return frame.Exit(frame.ExitRefused)
	}
	return nil
}

func (v *verbs) readCertificateFile(ctx context.Context, file string) (string, error) {
	if file == "-" {
		return v.ReadStdin(ctx)
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("FILE: %w: name the file that ssh-keygen -s has made", err)
	}
	if !info.Mode().IsRegular() || info.Size() == 0 || info.Size() > identity.MaxCertificateFile {
		return "", fmt.Errorf("FILE: %s is no certificate: name the file that ssh-keygen -s has made, whose name ends with -cert.pub", file)
	}
	text, err := os.ReadFile(file)
	return string(text), err
}

func (v *verbs) printCertificates(c *client.Certificates) {
	if cert := c.Certificate; cert != nil {
		v.PrintFields(
			[2]string{"name", client.Line(cert.Name)}, [2]string{"groups", client.Line(strings.Join(cert.Groups, ", "))},
			[2]string{"key", cert.ID.Label()}, [2]string{"key id", client.Line(cert.KeyID)}, [2]string{"serial", formatSerial(cert.Serial)},
			[2]string{"valid", formatValidity(cert)},
		)
	}
	if c.Problem != "" {
		v.PrintFields([2]string{"problem", client.Line(c.Problem)})
	}
	if len(c.Authorities) > 0 {
		var rows [][]string
		for _, a := range c.Authorities {
			rows = append(rows, []string{a.Name, strings.Join(a.Allow, ","), fmt.Sprint(a.Revoked), fmt.Sprint(a.Peers)})
		}
		v.PrintTable([]string{"AUTHORITY", "ALLOW", "REVOKED", "PEERS"}, rows)
	}
	if c.Certificate == nil && c.Problem == "" {
		v.PrintForPerson("no certificate is configured: have the line signed that acpctl cert request prints, and name the file under organisation in config.yaml")
	}
}

func formatSerial(serial uint64) string {
	if serial == 0 {
		return ""
	}
	return fmt.Sprint(serial)
}

func formatValidity(c *client.Certificate) string {
	from, to := "ever", "ever"
	if !c.NotBefore.IsZero() {
		from = c.NotBefore.UTC().Format(time.RFC3339)
	}
	if !c.NotAfter.IsZero() {
		to = c.NotAfter.UTC().Format(time.RFC3339)
	}
	return "from " + from + " to " + to
}
