package config

import (
	"maps"
	"reflect"
	"slices"

	"github.com/acpd/acpd/internal/yamldoc"
)

// Change is a setting, or an entry of a setting, in which two configurations differ.
type Change struct {
	Setting  string // as in policy and channels.open_to
	Key      string // the setting, or its entry that differs, as in policy.laptop
	From, To string // the values, on one line and at most maxShownValue bytes long
}

// ListChanges returns in what c differs from an older configuration, in the order of the
// reference file.
func (c *Config) ListChanges(old *Config) []Change {
	return listChangedFields("", reflect.ValueOf(old).Elem(), reflect.ValueOf(c).Elem())
}

func listChangedFields(above string, from, to reflect.Value) (changes []Change) {
	for i := range to.NumField() {
		field, a, b := to.Type().Field(i), from.Field(i), to.Field(i)
		name := yamldoc.JoinKey(above, field.Tag.Get("yaml"))
		switch field.Tag.Get("yaml") {
		case "-":
			continue
		case yamldoc.Inline:
			name = above
		}
		_, isText := b.Addr().Interface().(yamldoc.TextSetter)
		switch kind := field.Type.Kind(); {
		case kind == reflect.Struct && !isText:
			changes = append(changes, listChangedFields(name, a, b)...)
		case kind == reflect.Map:
			changes = append(changes, listChangedEntries(name, a, b)...)
		default:
			if !reflect.DeepEqual(a.Interface(), b.Interface()) {
				changes = append(changes, Change{name, name, renderValue(a), renderValue(b)})
			}
		}
	}
	return changes
}

// listChangedEntries returns in which entries two maps differ, in the order of their keys.
func listChangedEntries(setting string, from, to reflect.Value) (changes []Change) {
	keys := make(map[string]bool)
	for _, k := range slices.Concat(from.MapKeys(), to.MapKeys()) {
		keys[k.String()] = true
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		a, b := from.MapIndex(reflect.ValueOf(key)), to.MapIndex(reflect.ValueOf(key))
		if a.IsValid() != b.IsValid() || !reflect.DeepEqual(a.Interface(), b.Interface()) {
			changes = append(changes, Change{setting, yamldoc.JoinKey(setting, key), renderValue(a), renderValue(b)})
		}
	}
	return changes
}

// ListChangedSettings returns the names of the settings in which c differs from an older
// configuration.
func (c *Config) ListChangedSettings(old *Config) (names []string) {
	for _, change := range c.ListChanges(old) {
		names = append(names, change.Setting)
	}
	return slices.Compact(names)
}

// ListSettingsNaming returns the settings that name a peer by this petname.
func (c *Config) ListSettingsNaming(name string) []string {
	return slices.Sorted(maps.Keys(c.FindPeerRefs(func(ref string) bool { return ref == name })))
}

// FindPeerRefs returns the settings that name peers, each with the names or ids as they are
// written. wanted reports whether a name or id is wanted; "*" never is, and no name or group that a
// configured authority gives.
func (c *Config) FindPeerRefs(wanted func(ref string) bool) map[string][]string {
	found := make(map[string][]string)
	add := func(setting, ref string) {
		if ref != star && ref != "" && !c.IsOfAuthority(ref) && wanted(ref) {
			found[setting] = append(found[setting], ref)
		}
	}
	for ref := range c.Policy {
		add("policy", ref)
	}
	for ref := range c.Peers {
		add("peers", ref)
	}
	for _, r := range c.Limits.Rate {
		add("limits.rate", r.Peer)
	}
	for _, ref := range c.Channels.OpenTo {
		add("channels.open_to", ref)
	}
	for _, a := range c.Agents.Named {
		for _, ref := range a.To {
			add("agents", ref)
		}
		for ref := range a.Wake {
			add("agents", ref)
		}
	}
	return found
}
