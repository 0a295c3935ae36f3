package oacp

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/oacp/mailbox"
)

func (o *verbs) newInitCmd() *cobra.Command {
	var repo, agents string
	var links []string
	cmd := &cobra.Command{
		Use:   "init PROJECT",
		Short: "Make a project with mailboxes",
		Example: `  acpctl oacp init demo --agents planner,reviewer
  acpctl oacp init demo --agents '' --repo . --link docs/plan.md:plan.md`,
		Long: `Makes the folders of a project and of its agents. It keeps what exists, so you can run
it again to add an agent.`,
		RunE: o.withReferenceErrors(func(ctx context.Context, args []string) error {
			if strings.ContainsFunc(args[0], func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
				return frame.UsageErrorf("PROJECT: %q: a name with spaces is two in scripts and in what tools print: use - or _ instead", args[0])
			}
			w := mailbox.Workspace{Agents: splitNames(agents)}
			for _, l := range links {
				src, dst, _ := strings.Cut(l, ":")
				if src == "" || dst == "" {
					return frame.UsageErrorf("--link: expected SRC:DST")
				}
				w.Links = append(w.Links, mailbox.Link{Source: src, Name: dst})
			}
			var err error
			if repo != "" {
				if w.Repo, err = filepath.Abs(repo); err != nil {
					return err
				}
			}
			return o.initProject(ctx, args[0], w)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&agents, "agents", "claude,codex,cursor", `the agents, with commas; "" for none`)
	f.Var((*shellpath.Flag)(&repo), "repo", "note this repository, in which --link looks")
	f.StringArrayVar(&links, "link", nil, "SRC:DST: link artifacts/DST to SRC in the repository (repeatable)")
	return cmd
}

// splitNames returns the names in a list with commas, each once.
func splitNames(list string) (names []string) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (o *verbs) initProject(ctx context.Context, project string, w mailbox.Workspace) error {
	h, err := o.findHome()
	if err != nil {
		return err
	}
	_, absent := h.FindProject(project)
	p, made, skipped, err := h.InitProject(project, w)
	if err != nil {
		return err
	}
	if o.Home != "" && o.dir == "" { // else the user has named no daemon, and does not wait for one
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if other, ok := errors.AsType[*otherHomeError](o.checkDaemonHome(ctx)); ok {
			fmt.Fprintln(o.Err, client.Text(o.noteOtherHome(other)))
		}
	}
	return o.printReport(struct {
		Project string   `json:"project"`
		Path    string   `json:"path"`
		Agents  []string `json:"agents"`
	}{p.Name, p.Dir(), w.Agents}, func() {
		if len(made) > 0 {
			o.PrintLine("Creating artifact symlinks from repo: %s", w.Repo)
		}
		for _, l := range made {
			o.PrintLine("  + artifacts/%s -> %s", l.Name, l.Source)
		}
		for _, l := range skipped {
			o.PrintLine("  ! Skipped artifacts/%s — %s not found", l.Name, l.Source)
		}
		if absent == nil {
			o.PrintLine("Project workspace exists already: %s", p.Dir())
			o.PrintLine("  What was there stays, what was missing was made; another agent: acpctl oacp init %s --agents NAME", project)
		} else {
			o.PrintLine("Initialized project workspace: %s", p.Dir())
		}
		if w.Repo != "" {
			o.PrintLine("  To link a runtime repo, symlink workspace.json into the repo root:")
			o.PrintLine("    ln -sf %s <repo>/.oacp", filepath.Join(p.Dir(), "workspace.json"))
		}
	})
}
