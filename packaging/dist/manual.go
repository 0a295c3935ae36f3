package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/internal/app/cli"
	"github.com/acpd/acpd/internal/app/cli/frame"
)

// renderManual returns the man pages and the completions, as they are in an archive.
func renderManual(r *release) (files, error) {
	root := cli.NewRootCmd(frame.NewFrame(), r.version)
	root.InitDefaultHelpFlag()
	all, err := renderCompletions(root)
	if err != nil {
		return nil, err
	}
	help, err := r.run([]string{"CGO_ENABLED=0"}, goCommand(), "run", "-trimpath", "-tags", buildTags, "./cmd/acpd", "--help")
	if err != nil {
		return nil, err
	}
	all = append(all, file{path: "man/man8/acpd.8", mode: 0o644, text: r.renderDaemonPage(string(help))})
	var add func(cmd *cobra.Command)
	add = func(cmd *cobra.Command) {
		if !cmd.IsAvailableCommand() && cmd.HasParent() {
			return
		}
		all = append(all, file{path: "man/man1/" + pageName(cmd) + ".1", mode: 0o644, text: r.renderVerbPage(cmd)})
		for _, below := range cmd.Commands() {
			add(below)
		}
	}
	add(root)
	return all, nil
}

func renderCompletions(root *cobra.Command) (files, error) {
	var bash, zsh, fish bytes.Buffer
	for _, err := range []error{root.GenBashCompletionV2(&bash, true), root.GenZshCompletion(&zsh), root.GenFishCompletion(&fish, true)} {
		if err != nil {
			return nil, fmt.Errorf("completions: %w", err)
		}
	}
	return files{
		{path: "completions/acpctl.bash", mode: 0o644, text: bash.Bytes()},
		{path: "completions/_acpctl", mode: 0o644, text: zsh.Bytes()},
		{path: "completions/acpctl.fish", mode: 0o644, text: fish.Bytes()},
	}, nil
}

// pageName returns the name of the page of a verb: acpctl-wake-allow.
func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// page is a page that is being written, in the language of man(7).
type page struct{ bytes.Buffer }

// newPage begins a page. The heads of all pages are equal but for their names.
func (r *release) newPage(name, section, summary string) *page {
	p := &page{}
	fmt.Fprintf(p, ".TH %s %s %s \"acpd %s\" \"acpd\"\n", escape(strings.ToUpper(name)), section, r.time.Format("2006-01-02"), r.version)
	p.section("NAME")
	fmt.Fprintf(p, "%s \\- %s\n", escape(name), escape(summary))
	return p
}

func (p *page) section(title string) { fmt.Fprintf(p, ".SH %s\n", title) }

// paragraphs writes text in which an empty line ends a paragraph and an indented line stays
// as it is.
func (p *page) paragraphs(text string) {
	for i, block := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		if strings.TrimSpace(block) == "" {
			continue
		}
		if i > 0 {
			p.WriteString(".PP\n")
		}
		if strings.HasPrefix(block, " ") {
			p.example(block)
			continue
		}
		p.lines(block)
	}
}

// example writes text unchanged.
func (p *page) example(text string) {
	p.WriteString(".EX\n")
	p.lines(strings.Trim(text, "\n"))
	p.WriteString(".EE\n")
}

// lines writes lines of text. None of them is a request, whatever it begins with.
func (p *page) lines(text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		if strings.HasPrefix(line, ".") {
			p.WriteString(`\&`)
		}
		p.WriteString(escape(line) + "\n")
	}
}

// item writes what is called so, and what it is.
func (p *page) item(term, text string) {
	p.WriteString(".TP\n" + term + "\n")
	p.lines(text)
}

// escape returns text with each character of meaning to groff escaped (groff_char(7)).
func escape(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`).Replace(text)
}

// renderVerbPage returns the page of a verb of acpctl, or of acpctl itself.
func (r *release) renderVerbPage(cmd *cobra.Command) []byte {
	p := r.newPage(pageName(cmd), "1", cmd.Short)
	p.section("SYNOPSIS")
	path, rest := cmd.CommandPath(), strings.TrimPrefix(cmd.UseLine(), cmd.CommandPath())
	if cmd.HasAvailableSubCommands() && !cmd.Runnable() {
		rest = " VERB"
	}
	fmt.Fprintf(p, "\\fB%s\\fR%s\n", escape(path), escape(rest))
	p.section("DESCRIPTION")
	if text := cmd.Long; text != "" {
		p.paragraphs(text)
	} else {
		p.paragraphs(cmd.Short + ".")
	}
	if cmd.HasAvailableSubCommands() {
		p.section("VERBS")
		for _, below := range cmd.Commands() {
			if below.IsAvailableCommand() {
				p.item(fmt.Sprintf("\\fB%s\\fR(1)", escape(pageName(below))), below.Short)
			}
		}
	}
	cmd.InitDefaultHelpFlag()
	p.flags("OPTIONS", cmd.NonInheritedFlags())
	p.flags("OPTIONS OF ALL VERBS", cmd.InheritedFlags())
	if cmd.Example != "" {
		p.section("EXAMPLES")
		p.example(cmd.Example)
	}
	p.section("SEE ALSO")
	if cmd.HasParent() {
		fmt.Fprintf(p, "\\fB%s\\fR(1),\n", escape(pageName(cmd.Parent())))
	}
	p.WriteString("\\fBacpd\\fR(8)\n")
	return p.Bytes()
}

func (p *page) flags(title string, set *pflag.FlagSet) {
	if !set.HasAvailableFlags() {
		return
	}
	p.section(title)
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, text := pflag.UnquoteUsage(f)
		term := "\\fB" + escape("--"+f.Name) + "\\fR"
		if f.Shorthand != "" {
			term = "\\fB" + escape("-"+f.Shorthand) + "\\fR, " + term
		}
		if value != "" {
			term += " \\fI" + escape(value) + "\\fR"
		}
		p.item(term, text)
	})
}

// flagLine is a flag in what acpd --help prints.
var flagLine = regexp.MustCompile(`^ +(?:(-\w), )?(--[\w-]+)(?: (\w+))? {2,}(.*)$`)

// renderDaemonPage returns the page of acpd: what it says of itself, and what config.yaml may hold.
func (r *release) renderDaemonPage(help string) []byte {
	p := r.newPage("acpd", "8", "daemon that carries messages between AI agents")
	about, rest, _ := strings.Cut(help, "\nUsage:\n")
	usage, rest, _ := strings.Cut(rest, "\nExamples:\n")
	examples, flags, _ := strings.Cut(rest, "\nFlags:\n")
	p.section("SYNOPSIS")
	p.WriteString("\\fBacpd\\fR" + escape(strings.TrimPrefix(strings.TrimSpace(usage), "acpd")) + "\n")
	p.section("DESCRIPTION")
	p.paragraphs(about)
	p.section("OPTIONS")
	for line := range strings.Lines(flags) {
		m := flagLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			p.lines(strings.TrimSpace(line))
			continue
		}
		term := "\\fB" + escape(m[2]) + "\\fR"
		if m[1] != "" {
			term = "\\fB" + escape(m[1]) + "\\fR, " + term
		}
		if m[3] != "" {
			term += " \\fI" + escape(m[3]) + "\\fR"
		}
		p.item(term, m[4])
	}
	p.section("SETTINGS")
	p.lines("This is all that config.yaml may hold, as acpd --settings prints it.")
	p.example(config.RenderReferenceFile())
	p.section("EXAMPLES")
	p.example(examples)
	p.section("SEE ALSO")
	p.WriteString("\\fBacpctl\\fR(1)\n")
	return p.Bytes()
}
