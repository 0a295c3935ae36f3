package operate

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/internal/app/backup"
	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/statedir"
)

// listRelayNotes returns what must be done for the relays of a state directory that was restored
// without its identity before they take the daemon. What cannot be read gives no note: the daemon says
// what is wrong with it.
func listRelayNotes(dir string, source backup.IdentitySource) []string {
	if source != backup.IdentityNone {
		return nil
	}
	var names []string
	if c, err := config.LoadConfig(filepath.Join(dir, statedir.ConfigName)); err == nil {
		names = appendRelayNames(names, c.Reach.Relays)
	}
	if data, err := durable.ReadPrivateFile(filepath.Join(dir, statedir.RelaysName), config.MaxKeptRelays); err == nil {
		kept, _ := config.ParseKeptRelays(statedir.RelaysName, data)
		names = appendRelayNames(names, kept)
	}
	if len(names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the new identity has a new key and id for relays (%s): where a relay's configuration has those of the old one (nkey, acp1.ID), "+
		"ask its operator to replace them by what acpctl relay nkey and acpctl whoami print when acpd runs", strings.Join(names, ", "))}
}

func appendRelayNames(names []string, relays []config.Relay) []string {
	for _, r := range relays {
		names = append(names, r.Name)
	}
	return names
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
