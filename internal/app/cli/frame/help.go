package frame

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/acpd/acpd/internal/app/cli/ui"
)

// Group is a part of the verbs in the help of the program.
type Group struct {
	Title string
	Verbs []string // in the order in which they are listed; one that the program does not have is left out
}

// formatHelp returns the help of a command: what it is for, examples that can be typed, and the rest.
func (f *Frame) formatHelp(cmd *cobra.Command) string {
	var b strings.Builder
	width := f.OutWidth()
	part := func(title, text string) {
		if text = trimTrailingSpace(text); text != "" {
			b.WriteString("\n" + title + text + "\n")
		}
	}
	b.WriteString(ui.Wrap(cmd.Short+".", width) + "\n")
	part("", wrapExamples(cmd.Example, width))
	part("", ui.Wrap(cmd.Long, width))
	usage := ui.Wrap("  "+cmd.UseLine(), width)
	if cmd.HasAvailableSubCommands() {
		below := "  " + cmd.CommandPath() + " VERB"
		if usage += "\n" + below; cmd.Name() == cmd.Use {
			usage = below
		}
	}
	part("Usage:\n", usage)
	switch {
	case !cmd.HasParent() && len(f.Groups) > 0:
		part("", f.FormatGroups(cmd))
	case cmd.HasAvailableSubCommands():
		part("Verbs:\n", formatVerbs(cmd.Commands(), width))
	}
	part("Flags:\n", wrapFlags(cmd.LocalFlags(), width))
	part("Flags of every verb:\n", wrapFlags(cmd.InheritedFlags(), width))
	return b.String()
}

// FormatGroups returns the verbs of the program by groups, and a line that names those that are in none.
func (f *Frame) FormatGroups(root *cobra.Command) string {
	var b strings.Builder
	grouped := make(map[*cobra.Command]bool)
	for _, g := range f.Groups {
		var verbs []*cobra.Command
		for _, name := range g.Verbs {
			if cmd := findVerb(root, name); cmd != nil {
				verbs = append(verbs, cmd)
				grouped[cmd] = true
			}
		}
		b.WriteString(f.ColourText(ui.Bold, g.Title) + "\n" + formatVerbs(verbs, f.OutWidth()))
	}
	var more []string
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() && !grouped[cmd] {
			more = append(more, cmd.Name())
		}
	}
	b.WriteString(f.ColourText(ui.Bold, "More") + "\n" + ui.Wrap("  "+strings.Join(more, ", ")+": acpctl help all", f.OutWidth()) + "\n")
	return b.String()
}

// findVerb returns the verb below cmd that has a name, or nil.
func findVerb(cmd *cobra.Command, name string) *cobra.Command {
	for _, verb := range cmd.Commands() {
		if verb.IsAvailableCommand() && verb.Name() == name {
			return verb
		}
	}
	return nil
}

// formatVerbs returns a line about each verb.
func formatVerbs(verbs []*cobra.Command, width int) string {
	var b strings.Builder
	for _, verb := range verbs {
		if verb.IsAvailableCommand() {
			b.WriteString(ui.WrapBehind(fmt.Sprintf("  %-*s ", verb.NamePadding(), verb.Name()), verb.Short, width) + "\n")
		}
	}
	return b.String()
}

// wrapExamples wraps what is explained behind a command, and breaks no command.
func wrapExamples(examples string, width int) string {
	lines := strings.Split(examples, "\n")
	for i, line := range lines {
		if command := exampleCommand.FindString(line); command != "" && command != line {
			explained := strings.TrimPrefix(line, command)
			if ui.CountCells(command) > width-leastExplained {
				command = strings.TrimRight(command, " ") + "\n      "
			}
			lines[i] = ui.WrapBehind(command, explained, width)
		}
	}
	return strings.Join(lines, "\n")
}

const leastExplained = 20 // cells for the explanation to the right of an example, else it is below

// exampleCommand matches a command, and the spaces before what explains it.
var exampleCommand = regexp.MustCompile(`^ *\S+(?: \S+)*(?:   *)?`)

func wrapFlags(flags *pflag.FlagSet, width int) string {
	return ui.Wrap(trimTrailingSpace(flags.FlagUsages()), width)
}

func trimTrailingSpace(s string) string { return strings.TrimRightFunc(s, unicode.IsSpace) }

// newHelpCmd returns cobra's help command, except that it reports unknown verbs.
func (f *Frame) newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "help [VERB]",
		Short:  "Show how a verb is used",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "all" {
				_, err := io.WriteString(f.Out, formatVerbs(cmd.Root().Commands(), f.OutWidth()))
				return err
			}
			about, left, err := cmd.Root().Find(args)
			if (err != nil || len(left) > 0) && about.HasAvailableSubCommands() {
				return UsageErrorf("%w", checkNoUnknownVerb(about, left))
			}
			if err != nil || len(left) > 0 {
				return UsageErrorf("unknown verb %q", strings.Join(args, " "))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// checkNoUnknownVerb returns an error if there are arguments: none of them is a verb.
func checkNoUnknownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return reportUnknownVerb(cmd, args)
}
