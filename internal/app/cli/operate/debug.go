package operate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/kinds"
)

func (v *verbs) newDebugCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "debug",
		Short: "Look into the daemon's process",
		Example: `  acpctl debug pprof cpu --seconds 30 -o cpu.pprof
  acpctl log-level debug --for 10m`,
	}
	frame.RequireVerb(cmd)
	cmd.AddCommand(v.newPprofCmd())
	return cmd
}

func (v *verbs) newPprofCmd() *cobra.Command {
	var seconds int
	var file string
	measuredProfiles, stateProfiles := client.ListMeasuredProfiles(), client.ListStateProfiles()
	cmd := &cobra.Command{
		Use:   "pprof PROFILE",
		Short: "Write a profile of the daemon into a file",
		Example: `  acpctl debug pprof cpu --seconds 30 -o cpu.pprof
  acpctl debug pprof heap -o heap.pprof
  go tool pprof -top heap.pprof`,
		Long: `PROFILE is cpu, block or mutex, which are measured for the time of --seconds; or heap, allocs,
goroutine or threadcreate, which tell of this moment. The file is in the format of pprof: it has
names of functions and counts, and nothing of messages, keys or tokens. FILE must not be there
yet. The daemon takes one profile at a time, of 8 MiB at most.`,
		ValidArgs: slices.Concat(measuredProfiles, stateProfiles),
		RunE: func(cmd *cobra.Command, args []string) error {
			measured := slices.Contains(measuredProfiles, args[0])
			most := int(client.MaxPprofTime.Seconds())
			switch {
			case !measured && !slices.Contains(stateProfiles, args[0]):
				return frame.UsageErrorf("PROFILE: %.64q: use %s", args[0], strings.Join(slices.Concat(measuredProfiles, stateProfiles), ", "))
			case file == "":
				return frame.UsageErrorf("-o FILE is missing: name the file to write")
			case !measured && cmd.Flags().Changed("seconds"):
				return frame.UsageErrorf("--seconds: %s shows this moment: leave the flag out", args[0])
			case seconds < 1 || seconds > most:
				return frame.UsageErrorf("--seconds: %d: expected a number from 1 to %d", seconds, most)
			}
			p := client.PprofParams{Profile: args[0]}
			if measured {
				p.Secs = uint64(seconds)
			}
			return v.writeProfile(cmd.Context(), p, file)
		},
	}
	cmd.Flags().IntVar(&seconds, "seconds", 10, "how long to measure, from 1 to 120")
	cmd.Flags().VarP((*shellpath.Flag)(&file), "output", "o", "the file to write, which must not be there yet")
	return cmd
}

// writtenProfile is what debug pprof prints with --json.
type writtenProfile struct {
	Profile string `json:"profile"`
	File    string `json:"file"`
	Bytes   int    `json:"bytes"`
}

// writeProfile writes a profile into a new file. It makes the file first, so that nothing is
// measured in vain, and removes it if anything fails.
func (v *verbs) writeProfile(ctx context.Context, p client.PprofParams, path string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("--output: %s is there already: name a new file", path)
	}
	if err != nil {
		return fmt.Errorf("--output: %w: name a file that can be made", err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(path)
		}
	}()
	if p.Secs > 0 {
		v.PrintForPerson("measuring for %s", kinds.FormatDuration(time.Duration(p.Secs)*time.Second))
	}
	data, err := v.Daemon.Pprof(ctx, p)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Close()
	}
	if err != nil {
		return fmt.Errorf("--output: %w: free some space, or name a file on another disk", err)
	}
	v.SetDoneNote("the profile is in %s", path)
	return v.PrintData(writtenProfile{p.Profile, path, len(data)}, func() {
		v.PrintLine("%s: %d bytes", client.Line(path), len(data))
	})
}
