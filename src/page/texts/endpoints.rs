//! The texts of endpoints: the list, and the page of one.

use crate::page::language::Language;

super::texts!(EndpointTexts {
    title: "Endpoints", "端点";
    intro: "A receiver that is registered under a name, with the settings and the keys of its calls.", "以名称登记的接收方，包含其请求的设置与密钥。";
    new: "New endpoint", "新建端点";
    default_keys: "Default keys", "默认密钥";
    none: "There is no endpoint.", "暂无端点。";
    name: "Name", "名称";
    name_hint: "1 to 64 of the characters A-Z a-z 0-9 _ . -", "1 至 64 个字符，只能使用 A-Z a-z 0-9 _ . -";
    bad_name: "A name is 1 to 64 of the characters A-Z a-z 0-9 _ . -", "名称由 1 至 64 个字符组成，只能使用 A-Z a-z 0-9 _ . -";
    name_taken: "There is an endpoint of this name already.", "已存在同名端点。";
    keys: "Keys", "密钥数";
    version: "Version", "版本";
    changed: "Changed", "修改时间";
    created: "Made", "创建时间";
    settings: "Settings", "设置";
    not_set: "as the server says", "按服务器设置";
    hidden_values: "values are not shown", "不显示值";
    set: "set", "已设置";
    expires: "expires", "到期时间";
    unusable: "This server cannot open its signing keys, so it makes no calls to it. The log says why.", "本服务器无法解密其签名密钥，因此不向其投递，详情见日志。";
    series: "Series", "投递轮次";

    links: "Its calls", "投递情况";
    see_destination: "The destination", "查看目标状态";
    see_pending: "Pending notifications", "待投递的通知";
    see_dead: "Dead letters", "死信";

    edit: "Edit", "编辑";
    edit_title: "Edit the endpoint", "编辑端点";
    edit_help: "Changes hold for what is pending too, from the next attempt on. What this form does not show stays as it is: headers, names of the signature's headers, TLS, metadata, keys.", "修改从下一次投递起生效，包括已待投递的通知。本表单未列出的内容保持不变：请求头、签名头名称、TLS、元数据、密钥。";
    new_help: "What is left empty is as the server says. Headers, TLS and the like are set over the API or with the command.", "留空的项目按服务器设置。请求头、TLS 等通过 API 或命令行设置。";
    save: "Save", "保存";
    make: "Make the endpoint", "创建端点";
    back: "Back", "返回";
    changed_meanwhile: "Somebody has changed the endpoint since this form was opened. Nothing was saved. Compare with its page, then save again.", "打开表单后端点已被他人修改，本次未保存。请核对端点页面后再次保存。";
    bad_fields: "Nothing was saved: some fields are wrong.", "未保存：部分内容有误。";
    bad_field: "It was not saved:", "未保存，该项内容不正确：";
    bad_json: "This begins with a brace and is no JSON.", "内容以花括号开头，但不是有效的 JSON。";

    test: "Test call", "测试请求";
    help_test: "Makes one signed call now, with a body that says that it is a test. It is no notification: nothing of it is kept but the entry in the audit log.", "立即发送一次带签名的测试请求，正文注明为测试。不产生通知，仅在审计日志中留下记录。";
    tested: "The test call", "测试请求结果";
    test_busy: "Too many test calls are in flight. Try again in a moment.", "正在进行的测试请求过多，请稍后再试。";

    remove: "Remove", "删除";
    help_remove: "It can be removed if nothing that is pending names it. What has ended stays.", "没有待投递通知引用该端点时才能删除，已结束的通知不受影响。";
    confirm: "Yes, remove it", "确认删除";
    not_confirmed: "Nothing was removed: tick the box to confirm.", "未删除：请先勾选确认。";
    in_use: "Nothing was removed: notifications that name it are pending. Wait for their end or cancel them, then remove it.", "未删除：仍有待投递的通知引用该端点。请等待其结束或取消后再删除。";

    done_made: "The endpoint is made.", "端点已创建。";
    done_saved: "It is saved. Attempts from now on use the new settings.", "已保存，之后的投递使用新设置。";
    done_removed: "The endpoint is removed.", "端点已删除。";
    done_key_added: "The given secret signs from now on.", "所给密钥已开始签名。";
    done_key_known: "The given secret signs already, so nothing has changed.", "所给密钥此前已在使用，无任何变化。";
    done_key_removed: "The key is removed.", "密钥已移除。";
});

/// What was done, by the code in the address that a form leads to.
pub fn done(language: Language, code: &str) -> Option<&'static str> {
    let t = EndpointTexts::of(language);
    Some(match code {
        "endpoint-made" => t.done_made,
        "endpoint-saved" => t.done_saved,
        "endpoint-removed" => t.done_removed,
        "signing-key-added" => t.done_key_added,
        "signing-key-known" => t.done_key_known,
        "signing-key-removed" => t.done_key_removed,
        _ => return None,
    })
}
