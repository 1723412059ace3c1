package staxarchiveexporter

import (
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
)

// profiles passes the i-th resource of a profiles request through, with the dictionary that it refers to.
//
// Encoding profiles that are not read-only turns the strings of their attributes into dictionary references in place, and
// encoding read-only ones copies them first. So the copy is made here, and only the copy is encoded.
func (s *state) profiles(req *request, pd pprofile.Profiles, i int) {
	resource := pd.ResourceProfiles().At(i)
	rs := s.begin(resource.Resource())
	defer s.end(req, rs)
	one := pprofile.NewProfiles()
	pd.Dictionary().CopyTo(one.Dictionary())
	resource.CopyTo(one.ResourceProfiles().AppendEmpty())
	n := one.SampleCount()
	if n == 0 && one.ProfileCount() == 0 {
		return
	}
	payload, err := pprofileotlp.NewExportRequestFromProfiles(one).MarshalProto()
	s.passthrough(req, rs, "profiles", signalProfile, max(n, 1), payload, err)
}
