package operate

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/internal/app/backup"
	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/statedir"
)

// listRelayNotes returns what must be done for the relays of a state directory that was restored
// before they take the daemon: those that know its old identity, and files that no backup has. What
// cannot be read gives no note: the daemon says what is wrong with it.
func listRelayNotes(dir string, source backup.IdentitySource) []string {
	var relays []config.Relay
	if c, err := config.LoadConfig(filepath.Join(dir, statedir.ConfigName)); err == nil {
		relays = c.Reach.Relays
	}
	if data, err := durable.ReadPrivateFile(filepath.Join(dir, statedir.RelaysName), config.MaxKeptRelays); err == nil {
		kept, err := config.ParseKeptRelays(statedir.RelaysName, data)
		if err == nil {
			relays = slices.Concat(relays, kept)
		}
	}
	var notes, all []string
	for _, r := range relays {
		all = append(all, r.Name)
		if r.Credentials == "" {
			continue
		}
		file := r.Credentials
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		if _, err := os.Stat(file); err != nil {
			notes = append(notes, fmt.Sprintf("%s is not here, and in no backup: the relay %s is not used until it is, and acpctl reload", client.Line(file), r.Name))
		}
	}
	if source == backup.IdentityNone && len(all) > 0 {
		notes = append(notes, fmt.Sprintf("the new identity has a new key and id for relays (%s): where a relay's configuration has those of the old one (nkey, acp1.ID), "+
			"ask its operator to replace them by what acpctl relay nkey and acpctl whoami print when acpd runs", strings.Join(all, ", ")))
	}
	return notes
}

// listCommandNotes names the settings of a restored config.yaml that have the daemon start commands: a
// backup is not signed.
func listCommandNotes(dir string) []string {
	c, err := config.LoadConfig(filepath.Join(dir, statedir.ConfigName))
	if err != nil {
		return nil
	}
	var keys []string
	for _, name := range slices.Sorted(maps.Keys(c.Peers)) {
		if len(c.Peers[name].Pipe) > 0 {
			keys = append(keys, "peers."+name+".pipe")
		}
	}
	if len(c.Reach.Proxy.Command) > 0 {
		keys = append(keys, "reach.proxy.command")
	}
	if len(keys) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("config.yaml has acpd start commands as soon as it runs (%s): look at them first, if others can have written the backup", strings.Join(keys, ", "))}
}
